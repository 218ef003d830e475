"""Cells on disk and at work: each is done once, several at a time, and what is done survives any end.

================================  =====================================================================================
``cells/KEY/result.json``         what came out, of which work and options, how fast, on what; or it is absent
``cells/KEY/…``                   the cell's own: what a killed run left there is found again by the next
================================  =====================================================================================
"""

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from songrank import __version__
from songrank.core.errors import DataError
from songrank.io.files import NEW, not_written, write_whole
from songrank.io.json_files import plain, read_json
from songrank_paper.experiment import Cell, Experiment, Plan
from songrank_paper.workers import Workers, cores

_AGAIN = "it is done again"


@dataclass(frozen=True)
class Done:
    """A cell that is done: its result as JSON has it, and how it was made."""

    result: dict[str, Any]
    seconds: float
    machine: str
    versions: str


class Store:
    """Results of cells, by their keys, in a folder.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> cell = Cell("movielens-1m", "songrank_paper.stats:count", {"data": "0123abcd"})
    >>> store.read(cell) is None
    True
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda message: None) -> None:
        self.path, self.warn = path, warn

    def folder(self, cell: Cell) -> Path:
        """The folder of a cell, which need not be there yet."""
        return self.path / cell.key

    def sweep(self) -> None:
        """Remove what processes that were ended left half-written."""
        for left in self.path.glob(f"*/{NEW}*"):
            left.unlink(missing_ok=True)

    def read(self, cell: Cell) -> Done | None:
        """What is known of a cell; None if it is to be done, also because its file is damaged, which is said."""
        file = self.folder(cell) / "result.json"
        if not file.exists():
            return None
        try:
            content = read_json(file, _AGAIN)
            if Cell(cell.name, content["work"], content["options"]).key != cell.key:
                raise DataError("belongs to other work", _AGAIN, file=str(file))
            versions = f"songrank {content['songrank']}, torch {content['torch']}"
            return Done(dict(content["result"]), float(content["seconds"]), str(content["machine"]), versions)
        except DataError as error:
            self.warn(str(error))
        except (KeyError, TypeError, ValueError):
            self.warn(str(DataError("is not what was written there", _AGAIN, file=str(file))))
        return None


def do_cell(cell: Cell, folder: Path) -> None:
    """Do the work of a cell, and write what came out into its folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from None
    module, _, name = cell.work.partition(":")
    begun = time.monotonic()
    result = getattr(import_module(module), name)(folder, **cell.options, **cell.where)
    content = {
        "name": cell.name,
        "work": cell.work,
        "options": dict(cell.options),
        "seconds": round(time.monotonic() - begun, 3),
        "machine": machine(str(cell.where.get("device") or cell.options.get("device") or "cpu")),
        "songrank": __version__,
        "torch": torch.__version__,
        "result": result,
    }
    write_whole(folder / "result.json", json.dumps(plain(content), indent=1) + "\n")


def _do_within(store: Path, cell: Cell) -> None:
    do_cell(cell, store / cell.key)


def machine(device: str) -> str:
    """What a cell runs on, in words."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {cores()} cores"


class Observer:
    """Is told how the work goes on; what it does about that is for subclasses."""

    def known(self, done: int, total: int) -> None:
        """So many cells are done of those that are known to be needed."""

    def begun(self, cell: Cell) -> None:
        """Work on a cell has begun."""

    def finished(self, cell: Cell, seconds: float) -> None:
        """A cell is done now."""


Complete = Callable[[Experiment, dict[str, Done]], None]


def run_cells(
    experiments: Sequence[Experiment],
    plan: Plan,
    store: Store,
    workers: Workers,
    observe: Observer | None = None,
    complete: Complete = lambda experiment, done: None,
) -> dict[str, Done]:
    """Do whatever experiments still need; all of their cells by their keys.

    Args:
        experiments: each is asked for its cells again whenever there is nothing to do, until it has no new ones, so
            that no process waits for what it does not need. Cells that are timed are done when all others are, one at
            a time, in this process.
        plan: how they are to be made.
        store: where results are.
        workers: who do the work.
        observe: told about each cell.
        complete: given each experiment, and all of its cells, as soon as they are done.

    The first error ends it, once the cells that are under way have ended; all that is done by then is kept.
    """
    observe = observe or Observer()
    left = _Left(experiments, plan, store, observe, complete)
    work, alone = partial(_do_within, store.path), Workers(1)
    while left.experiments:
        for cell, _ in workers.do((), work, observe.begun, partial(left.cells, workers.jobs)):
            left.done[cell.key] = _kept(store, cell)
            observe.finished(cell, left.done[cell.key].seconds)
        timed, left.timed = left.timed, []
        for cell, _ in alone.do(timed, work, observe.begun):
            left.done[cell.key] = _kept(store, cell)
            observe.finished(cell, left.done[cell.key].seconds)
    return left.done


class _Left:
    """What is still to be done."""

    def __init__(
        self, experiments: Sequence[Experiment], plan: Plan, store: Store, observe: Observer, complete: Complete
    ) -> None:
        self.experiments, self.plan, self.store = list(experiments), plan, store
        self.observe, self.complete = observe, complete
        self.done: dict[str, Done] = {}
        self.timed: list[Cell] = []
        self._given: set[str] = set()
        self._looked_for: set[str] = set()

    def cells(self, enough: int) -> list[Cell]:
        """Cells that nobody was given yet, ``enough`` of them if there are; those that are timed are put aside."""
        found: list[Cell] = []
        for experiment in tuple(self.experiments):
            needed = self._needed(experiment)
            if all(key in self.done for key in needed):
                self.experiments.remove(experiment)
                self.complete(experiment, {key: self.done[key] for key in needed})
                continue
            new = [cell for key, cell in needed.items() if key not in self.done and key not in self._given]
            self._given |= {cell.key for cell in new}
            self.timed += [cell for cell in new if cell.timed]
            found += [cell for cell in new if not cell.timed]
            if len(found) >= enough:
                break
        self.observe.known(len(self.done), len(self._given.union(self.done)))
        return found

    def _needed(self, experiment: Experiment) -> dict[str, Cell]:
        """All cells of an experiment that are known; those that are in the store are done."""
        while True:
            cells = {cell.key: cell for cell in experiment.cells(self.plan, results(self.done))}
            new = [cell for key, cell in cells.items() if key not in self._looked_for]
            self._looked_for |= {cell.key for cell in new}
            kept = {cell.key: done for cell in new if (done := self.store.read(cell)) is not None}
            if not kept:
                return cells
            self.done |= kept


def results(done: Mapping[str, Done]) -> dict[str, dict[str, Any]]:
    """Results alone, as experiments take them."""
    return {key: one.result for key, one in done.items()}


def _kept(store: Store, cell: Cell) -> Done:
    """A result as it was written, so that it is the same now and when the command is run again."""
    found = store.read(cell)
    if found is None:
        raise DataError("cannot be read back", "check the disk", file=str(store.folder(cell) / "result.json"))
    return found
