"""Experiment cells: units of work that run once, in parallel, with results stored on disk.

================================  =====================================================================================
``cells/KEY/result.json``         result, work, options, duration and machine; absent until the cell is done
``cells/KEY/…``                   files of the cell, from which a killed run is resumed
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
from songrank.core.text import counted
from songrank.io.files import not_written, remove_leftovers, write_whole
from songrank.io.json_files import plain, read_json
from songrank_paper.experiment import Cell, Experiment, Plan
from songrank_paper.workers import Workers, cores

_AGAIN = "the cell is run again"


@dataclass(frozen=True)
class Done:
    """A finished cell: its result as JSON, and how it was computed."""

    result: dict[str, Any]
    seconds: float
    machine: str
    versions: str


class Store:
    """Results of cells by key, in a directory.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> cell = Cell("movielens-1m", "songrank_paper.stats:count", {"data": "0123abcd"})
    >>> store.read(cell) is None
    True
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda message: None) -> None:
        self.path, self.warn = path, warn

    def folder(self, cell: Cell) -> Path:
        """The directory of a cell, which may not exist yet."""
        return self.path / cell.key

    def sweep(self) -> None:
        """Remove partial files of killed processes."""
        for folder in self.path.glob("*/"):
            remove_leftovers(folder)

    def read(self, cell: Cell) -> Done | None:
        """The result of a cell; None if it must be run, with a warning if its file is damaged."""
        file = self.folder(cell) / "result.json"
        if not file.exists():
            return None
        try:
            content = read_json(file, _AGAIN)
            if Cell(cell.name, content["work"], content["options"]).key != cell.key:
                raise DataError("belongs to another cell", _AGAIN, file=str(file))
            versions = f"songrank {content['songrank']}, torch {content['torch']}"
            return Done(dict(content["result"]), float(content["seconds"]), str(content["machine"]), versions)
        except DataError as error:
            self.warn(str(error))
        except (KeyError, TypeError, ValueError):
            self.warn(str(DataError("is damaged", _AGAIN, file=str(file))))
        return None


def do_cell(cell: Cell, folder: Path) -> None:
    """Execute a cell, and write the result into its directory."""
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
    """A description of the machine."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {counted(cores(), 'cores')}"


class Observer:
    """Receives the progress of the work; subclasses show it."""

    def known(self, done: int, total: int) -> None:
        """Called with the number of finished cells and of known cells."""

    def begun(self, cell: Cell) -> None:
        """Called when a cell starts."""

    def finished(self, cell: Cell, seconds: float) -> None:
        """Called when a cell is done."""


Complete = Callable[[Experiment, dict[str, Done]], None]


def run_cells(
    experiments: Sequence[Experiment],
    plan: Plan,
    store: Store,
    workers: Workers,
    observe: Observer | None = None,
    complete: Complete = lambda experiment, done: None,
) -> dict[str, Done]:
    """Run the missing cells of experiments; returns all of their cells by key.

    Args:
        experiments: each is asked for its cells again whenever workers are idle, until it has no new ones. Timed cells
            run last, one at a time, in this process.
        plan: the plan of the experiments.
        store: results on disk.
        workers: worker processes.
        observe: receives the progress of each cell.
        complete: called with each experiment and all of its cells as soon as they are done.

    The first error is raised once the running cells have ended; finished cells are kept.
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
    """The work that is left."""

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
        """Up to ``enough`` cells that are not assigned yet; timed cells are put aside."""
        found: list[Cell] = []
        for experiment in tuple(self.experiments):
            needed = self.needed(experiment)
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

    def needed(self, experiment: Experiment) -> dict[str, Cell]:
        """All known cells of an experiment; those in the store are done."""
        while True:
            cells = {cell.key: cell for cell in experiment.cells(self.plan, results(self.done))}
            new = [cell for key, cell in cells.items() if key not in self._looked_for]
            self._looked_for |= {cell.key for cell in new}
            kept = {cell.key: done for cell in new if (done := self.store.read(cell)) is not None}
            if not kept:
                return cells
            self.done |= kept


def stored(experiment: Experiment, plan: Plan, store: Store) -> dict[str, Done]:
    """The finished cells of an experiment by key, without running any."""
    known = _Left([experiment], plan, store, Observer(), lambda experiment, done: None)
    needed = known.needed(experiment)
    return {key: known.done[key] for key in needed if key in known.done}


def results(done: Mapping[str, Done]) -> dict[str, dict[str, Any]]:
    """Results in the form that experiments use."""
    return {key: one.result for key, one in done.items()}


def _kept(store: Store, cell: Cell) -> Done:
    """A result as it was written, so that it is the same when the command is run again."""
    found = store.read(cell)
    if found is None:
        raise DataError("cannot be read back", "check the disk", file=str(store.folder(cell) / "result.json"))
    return found
