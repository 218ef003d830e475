"""Cells in worker processes."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from songrank.cli.signals import stoppable
from songrank.core.errors import UserError
from songrank_paper.cells import Observer, Store, results, run_cells
from songrank_paper.experiment import Cell, Plan
from songrank_paper.workers import Workers
from tests.songrank_paper.small_cells import PLAN, Seen, of, serially, stamps
from tests.songrank_paper.tiny import Tiny, cell


def test_processes_give_what_one_process_gives(tmp_path, pair):
    serial, _ = serially(tmp_path / "serial")
    parallel = run_cells([Tiny()], PLAN, Store(tmp_path / "parallel"), pair)
    more = run_cells([Tiny()], Plan(seeds=(7, 8)), Store(tmp_path / "parallel"), pair)
    assert results(parallel) == results(serial)
    assert results(more) == results(serially(tmp_path / "serial", plan=Plan(seeds=(7, 8)))[0])
    pids = {(tmp_path / "parallel" / cell(seed).key / "pid").read_text() for seed in (0, 1, 2, 7, 8)}
    assert str(os.getpid()) not in pids
    assert len(pids) <= 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_ends_the_work_with_its_message_and_keeps_what_is_done(tmp_path, jobs, pair):
    broken = Cell("broken", "tests.songrank_paper.tiny:fail", {"message": "ratings.csv: is empty; give another"})
    with pytest.raises(UserError, match="ratings.csv: is empty; give another"):
        run_cells(
            [of(cell(0), broken, *map(cell, range(1, 9)))], PLAN, Store(tmp_path), pair if jobs == 2 else Workers()
        )
    kept = set(stamps(tmp_path))
    assert cell(0).key in kept
    assert len(kept) < 9
    assert broken.key not in kept
    seen = Seen()
    run_cells([of(*map(cell, range(9)))], PLAN, Store(tmp_path), Workers(), seen)
    assert len(seen.names) == 9 - len(kept)


def test_a_process_that_vanishes_is_a_line_about_memory_and_jobs(tmp_path):
    gone = Cell("gone", "tests.songrank_paper.tiny:vanish", {})
    with pytest.raises(UserError, match="run the same command with fewer --jobs"), Workers(2) as workers:
        run_cells([of(gone)], PLAN, Store(tmp_path), workers)


def gone(pid):
    """Whether a process has ended, within a minute."""
    for _ in range(6000):
        try:
            os.kill(int(pid), 0)
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.01)
    return False


class Interrupting(Observer):
    """Raises once both processes are at work."""

    def __init__(self, files):
        self.files = files

    def begun(self, cell):
        if cell.name == "b":
            while not all(file.exists() and file.read_text() for file in self.files):
                time.sleep(0.01)
            raise KeyboardInterrupt


def test_no_process_is_left_when_the_work_is_stopped(tmp_path):
    cells = [Cell("a", "tests.songrank_paper.tiny:stall", {}), Cell("b", "tests.songrank_paper.tiny:stall", {"x": 1})]
    file = tmp_path / cells[0].key / "pid"
    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        run_cells([of(*cells)], PLAN, Store(tmp_path), workers, Interrupting([file]))
    assert gone(file.read_text())


def test_a_signal_while_results_are_awaited_is_a_clean_stop():
    """A handler that raises within a wait of ``concurrent.futures`` leaves a lock of the pool released twice."""
    with ThreadPoolExecutor(2) as pool:
        for number in range(100):
            workers = Workers(2)
            workers._pool = pool  # threads, since processes take seconds to start
            with stoppable(workers.stop) as received, pytest.raises(KeyboardInterrupt):
                for _ in workers.do(range(1000), partial(_press, number % 7)):
                    pass
            assert received == [signal.SIGINT]


def _press(which, piece):
    """Send Ctrl-C to this process while it waits for a result."""
    if piece == which:
        os.kill(os.getpid(), signal.SIGINT)
