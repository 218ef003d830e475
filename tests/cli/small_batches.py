"""The command with small batches, for several processes; the first argument names what happens to process 1."""

import errno
import os
import signal
import sys

from songrank.cli.main import main
from songrank.io.tables import table_writer
from songrank.serving import labels, rank_file, recommendations

SMALL = [
    (recommendations, "_SCORES", {"cpu": 200}),
    (labels, "_TEXT_VALUES", 100),
    (rank_file, "CHUNK_BYTES", 100),
    (table_writer, "_PART_ROWS", 7),
]


def fail(what):
    """Let the second block of rows fail."""
    write, calls = table_writer.TableWriter.write, []

    def failing(self, rows):
        calls.append(rows)
        if len(calls) == 2 and what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if len(calls) == 2 and what == "full":
            with table_writer.writing(self.path):
                raise OSError(errno.ENOSPC, "No space left on device")
        write(self, rows)

    table_writer.TableWriter.write = failing


if __name__ == "__main__":
    for change in SMALL:
        setattr(*change)
    what = sys.argv.pop(1)
    if what != "nothing" and os.environ["RANK"] == "1":
        fail(what)
    main()
