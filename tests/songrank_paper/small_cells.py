"""Helpers that tests of several modules share."""

from songrank_paper.cells import Observer, Store, run_cells
from songrank_paper.experiment import Experiment, Plan
from songrank_paper.workers import Workers
from tests.songrank_paper.tiny import Tiny

PLAN = Plan(quick=True, seeds=(0, 1, 2))


class Seen(Observer):
    def __init__(self):
        self.counts, self.names = [], []

    def known(self, done, total):
        self.counts.append((done, total))

    def finished(self, cell, seconds):
        self.names.append(cell.name)


def serially(path, experiment=None, plan=PLAN, warn=lambda message: None):
    seen = Seen()
    return run_cells([experiment or Tiny()], plan, Store(path, warn), Workers(), seen), seen


def stamps(path):
    """What tells a file that was written again from one that was not."""
    return {file.parent.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in path.glob("*/result.json")}


def of(*cells):
    class Given(Experiment):
        name = title = "given"

        def cells(self, plan, found):
            return cells

        def show(self, plan, found):
            raise NotImplementedError

    return Given()
