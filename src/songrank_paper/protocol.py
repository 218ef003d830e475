"""The protocol of comparisons.

All methods share one warm-up per seed. The same number of settings is tried for each method, and one is chosen on
validation with a seed that is not reported. The chosen setting is run once per reported seed and evaluated on test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from songrank.analysis.trials import best_first
from songrank.core.errors import UserError
from songrank.data import open_dataset
from songrank.training.run_directory import fingerprint
from songrank_paper.data_sets import SETS
from songrank_paper.experiment import Cell, Found, Plan
from songrank_paper.methods import METHODS, Method, Setting
from songrank_paper.set_recipes import CHOSEN_BY, METRICS, SetRecipe

TUNING_SEED = 1_000_000
"""Settings are chosen by runs with this seed only."""
BUDGET, QUICK_BUDGET = 6, 2
"""Number of settings tried per method."""
NOTHING: Found = MappingProxyType({})
"""No results."""
_WORK = "songrank_paper.runs"
_TIMING = "songrank_paper.peer_runs:time_epochs"
_EPOCHS_TIMED = 4


@dataclass(frozen=True)
class Training:
    """A run: its cell, and the cell of the warm-up that it needs."""

    cell: Cell
    after: Cell | None = None


def waiting(trainings: Iterable[Training], found: Found) -> list[Cell]:
    """Cells that can start now, each once: runs whose warm-up is done, and warm-ups of the others.

    >>> warm, run = Cell("warm-up", "m:f", {"seed": 0}), Cell("song", "m:f", {"seed": 0, "loss": "song"})
    >>> [cell.name for cell in waiting([Training(run, warm)], {})]
    ['warm-up']
    >>> [cell.name for cell in waiting([Training(run, warm)], {warm.key: {}})]
    ['warm-up', 'song']
    """
    cells: dict[str, Cell] = {}
    for training in trainings:
        if training.after is not None:
            cells.setdefault(training.after.key, training.after)
        if training.after is None or training.after.key in found:
            cells.setdefault(training.cell.key, training.cell)
    return list(cells.values())


class SetProtocol:
    """The runs of all methods on one data set.

    Args:
        plan: the settings of the reproduction.
        name: name of the set.
        changes: last changes of its recipe.
    """

    def __init__(self, plan: Plan, name: str, changes: Sequence[str] = ()) -> None:
        self.plan, self.name = plan, name
        self.path = plan.data[name]
        self.dataset = open_dataset(self.path)
        if "validation" not in self.dataset or "test" not in self.dataset:
            raise UserError(f"{self.path} has {', '.join(self.dataset)}; expected train, validation and test")
        if TUNING_SEED in plan.seeds:
            raise UserError(f"seed {TUNING_SEED} is reserved for choosing settings; report other seeds")
        self.task = self.dataset.task
        self.metrics, self.chosen_by = METRICS[self.task], CHOSEN_BY[self.task]
        self._set_up(changes)

    def _set_up(self, changes: Sequence[str]) -> None:
        """Make the recipe of the set."""
        self.recipe = SetRecipe(self.name, self.dataset, quick=self.plan.quick, changes=changes)

    @cached_property
    def data(self) -> str:
        """Fingerprint of the set."""
        return fingerprint(self.dataset)

    @property
    def title(self) -> str:
        """The name of the set in tables of several sets."""
        return self.name

    @property
    def label(self) -> str:
        """The name of the set, marked if the data are synthetic."""
        return f"{self.name} (synthetic)" if self.dataset.name == "synthetic" else self.name

    @property
    def panel(self) -> str:
        """A title for validation curves, marked if only sampled items are ranked."""
        candidates = self.recipe.warm_up(0)["validation"]["candidates"]
        return self.label if candidates == "all" else f"{self.label}, among {candidates} sampled"

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods of the set's task."""
        return METHODS[self.task]

    def method(self, name: str) -> Method:
        """A method by name."""
        return next(method for method in self.methods if method.name == name)

    def cell(self, what: str, work: str, recipe: Mapping[str, Any], *, timed: bool = False, **options: Any) -> Cell:
        """A cell on this set, named ``what``; timed results depend on the device."""
        name = f"{self.name}: {what}, seed {recipe['seed']}"
        path, device = {"path": str(self.path.absolute())}, {"device": self.plan.device}
        options = {"recipe": recipe, "data": self.data, **options}
        if timed:
            return Cell(name, work, {**options, **device}, path, timed=True)
        return Cell(name, work, options, {**path, **device})

    def warm_up(self, seed: int, *changes: str) -> Training:
        """The warm-up without fine-tuning."""
        recipe = self.recipe.warm_up(seed, *changes)
        what = ", ".join(["warm-up", *changes])
        return Training(self.cell(what, f"{_WORK}:train", recipe, splits=["validation"], after=None))

    def run(
        self,
        setting: Setting,
        seed: int,
        *changes: str,
        splits: Sequence[str] = ("validation", "test"),
        work: str = f"{_WORK}:train",
        called: str = "",
        timed: bool = False,
    ) -> Training:
        """A run with a setting, after the common warm-up, or without warm-up if the changes say so."""
        recipe = self.recipe.fine_tuning(setting, seed, *changes)
        after = self.warm_up(seed).cell if recipe["warm_up"]["epochs"] else None
        words = replace(setting, changes=(*setting.changes, *changes)).words
        what = called or ", ".join(word for word in (recipe["loss"]["name"], words) if word)
        key = None if after is None else after.key
        return Training(self.cell(what, work, recipe, timed=timed, splits=list(splits), after=key), after)

    def by_the_clock(self, label: str, setting: Setting, *changes: str, work: str = _TIMING) -> Training:
        """A few timed epochs without evaluation, with the first seed; the result is their median."""
        short = (
            "warm_up.epochs=0",
            f"fine_tuning.epochs={_EPOCHS_TIMED}",
            "fine_tuning.decay={}",
            "validation.every=0",
        )
        called = f"{label}, timed"
        return self.run(setting, self.plan.seeds[0], *changes, *short, splits=[], work=work, called=called, timed=True)

    def tuning(self, method: Method, found: Found = NOTHING) -> dict[Setting, Training]:
        """Runs of all settings of a method, without test; settings may depend on the results so far."""
        settings = method.settings(QUICK_BUDGET if self.plan.quick else BUDGET)
        return {setting: self.run(setting, TUNING_SEED, splits=["validation"]) for setting in settings}

    def tried(self, method: Method, found: Found) -> dict[Setting, float | None] | None:
        """Validation values of all settings, None for a diverged one; None until all are done."""
        keys = {setting: training.cell.key for setting, training in self.tuning(method, found).items()}
        if any(key not in found for key in keys.values()):
            return None
        return {setting: validation_value(found[key], self.chosen_by) for setting, key in keys.items()}

    def chosen(self, method: Method, found: Found) -> Setting | None:
        """The best setting on validation, of ties the first; None until all are done."""
        tried = self.tried(method, found)
        if tried is None:
            return None
        return [*best_first(tried), *tried][0]

    def reported(self, method: Method, found: Found, *changes: str) -> list[Training]:
        """Runs of the chosen setting with each reported seed; empty until it is chosen."""
        setting = self.chosen(method, found)
        return [] if setting is None else [self.run(setting, seed, *changes) for seed in self.plan.seeds]

    def all_of(self, method: Method, found: Found) -> list[Training]:
        """Runs of tuning, then reported runs."""
        return [*self.tuning(method, found).values(), *self.reported(method, found)]

    def remarks(self, methods: Iterable[Method]) -> list[str]:
        """Remarks on the training of these methods on this set."""
        return self.recipe.remarks([method.name for method in methods])


def validation_value(result: Mapping[str, Any], metric: str) -> float | None:
    """A metric of a run on validation; None if the run diverged."""
    value: float | None = None if "diverged" in result else result["metrics"]["validation"][metric]
    return value


def protocols(
    plan: Plan, tasks: Sequence[str], changes: Sequence[str] = (), most: int | None = None
) -> list[SetProtocol]:
    """One per data set of these tasks; at most ``most`` per task, of which a quick run uses the first."""
    chosen: list[SetProtocol] = []
    for task in tasks:
        names = [name for name in plan.data if SETS[name].group == task]
        if most is not None:
            names = names[: 1 if plan.quick else most]
        chosen += [SetProtocol(plan, name, changes) for name in names]
    if not chosen:
        raise UserError(f"a data set for {' or '.join(tasks)} is needed; pass one with --data NAME=PATH")
    return chosen


def budget_remark(plan: Plan) -> str:
    """A remark on the choice of settings."""
    settings = QUICK_BUDGET if plan.quick else BUDGET
    return (
        f"Every method had the same warm-up, a new head and {settings} settings. One was chosen on validation with a "
        f"separate seed, then run once with each of {len(plan.seeds)} seeds. No choice was made on test."
    )
