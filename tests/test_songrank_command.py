"""The first moments of the command: it is being imported, and somebody presses Ctrl-C."""

import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PRESSED = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    pass  # as some libraries do while they are imported
"""
PRESSING_LATER = """
import os, signal, sys
class Press:
    def find_spec(self, name, *more):
        if name == "songrank.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
"""


def start(path, *words, **more):
    code = f"import sys; sys.argv[1:] = {list(words)}; import songrank_command; songrank_command.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, **more)


def test_ctrl_c_while_the_package_is_imported_is_one_line(tmp_path):
    (tmp_path / "songrank").mkdir()
    (tmp_path / "songrank" / "__init__.py").write_text(PRESSED)
    # A job in the background inherits an ignored SIGINT.
    done = start((tmp_path, SOURCE), "--version", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped before anything was begun\n")


def test_a_command_that_was_told_to_ignore_ctrl_c_does(tmp_path):
    """As a script's shell tells what it starts with ``&``."""
    (tmp_path / "sitecustomize.py").write_text(PRESSING_LATER)
    done = start((tmp_path, SOURCE), "--version", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0.")


def test_otherwise_it_is_the_command():
    assert start((SOURCE,), "--version").stdout.startswith("0.")
    failed = start((SOURCE,), "train", "nothing-of-this-name")
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert failed.stderr.count("\n") == 1


def test_it_is_what_is_installed_as_songrank():
    (script,) = entry_points(group="console_scripts", name="songrank")
    assert script.value == "songrank_command:main"


def test_launchers_start_the_package_as_a_module():
    """And only the first of several processes prints an invalid option."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "songrank", "evaluate", "run", "--nothing"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "RANK": rank},
        )
        for rank in "01"
    ]
    assert [done.returncode for done in told] == [2, 2]
    assert told[0].stderr.startswith("error: No such option: --nothing")
    assert told[1].stderr == ""
