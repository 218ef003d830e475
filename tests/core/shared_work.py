"""A process of a job, for test_processes.py: its argument names what it does."""

import os
import signal
import sys

import torch

from songrank.core.errors import DataError, UserError
from songrank.core.processes import joined


def main(what):
    with joined("cpu") as own:
        if what == "exchange":
            rows = torch.arange(own.rank + 1) + 10 * own.rank
            total = own.add(torch.tensor([0.1 * own.rank], dtype=torch.float64))
            table = own.collect(rows.clone())
            own.deal(rows if table is None else table * 2, rows)
            assert torch.equal(rows, 2 * (torch.arange(own.rank + 1) + 10 * own.rank))
            rows //= 2
            print(own.gather(rows).tolist(), own.texts("é" * own.rank), list(own.share(range(5))), float(total))
        elif what == "nested":
            with own.agreed():
                if own.rank == 1:
                    raise DataError("is wrong", "repair it", file="x")
                with own.agreed():
                    pass
                own.add(torch.ones(3))
        elif what == "converted":
            with own.agreed():
                try:
                    with own.agreed():
                        print([0][own.rank])
                except ValueError as error:
                    raise UserError(str(error)) from None
        elif what == "everywhere":
            with own.agreed():
                raise DataError("is missing", "copy it", file="y")
        elif what == "bug":
            with own.agreed():
                print([0][own.rank])
        elif what == "killed":
            if own.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            with own.agreed():
                pass


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ValueError as error:
        print(type(error).__name__, error.exit_code, error)
