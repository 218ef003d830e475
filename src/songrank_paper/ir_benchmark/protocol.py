"""The protocol of the benchmark: two rounds of settings on validation, then all training pairs, then test once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from songrank.core.errors import UserError
from songrank_paper.data_sets import IR_BENCHMARK, SETS
from songrank_paper.experiment import Cell, Found, Plan
from songrank_paper.ir_benchmark.losses import SOFTMAX, SONG, benchmark_methods
from songrank_paper.ir_benchmark.recipes import METRICS, BenchmarkRecipe
from songrank_paper.methods import Method, Setting
from songrank_paper.protocol import NOTHING, TUNING_SEED, SetProtocol, Training, validation_value
from songrank_paper.tables import finished, is_done

FIRST, SECOND = 4, 2
"""Number of settings tried per method in each round."""
QUICK_FIRST, QUICK_SECOND = 2, 1
BASELINES = (SOFTMAX, SONG)
_WORK = "songrank_paper.ir_benchmark.runs"


class BenchmarkProtocol(SetProtocol):
    """The runs of all methods on one data set with one backbone.

    Args:
        plan: the settings of the reproduction.
        name: name of the set.
        backbone: a name of :data:`songrank_paper.ir_benchmark.recipes.BACKBONES`.
        changes: last changes of its recipe.
    """

    def __init__(self, plan: Plan, name: str, backbone: str, changes: Sequence[str] = ()) -> None:
        self.backbone = backbone
        super().__init__(plan, name, changes)
        self.metrics, self.chosen_by = METRICS, METRICS[0]

    def _set_up(self, changes: Sequence[str]) -> None:
        self.settings = BenchmarkRecipe(self.name, self.backbone, quick=self.plan.quick, changes=changes)

    @property
    def title(self) -> str:
        """The name of the set and the backbone."""
        return f"{self.name}, {self.backbone}"

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods of the benchmark."""
        return benchmark_methods(self.name, self.backbone)

    @property
    def joined(self) -> Cell:
        """The cell that writes the data set with all training pairs."""
        where = {"path": str(self.path.absolute())}
        return Cell(f"{self.name}: all training pairs", f"{_WORK}:join", {"data": self.data}, where)

    def ease(self, found: Found) -> Cell | None:
        """EASE; None until there is the data set with all training pairs."""
        if self.joined.key not in found:
            return None
        whole = found[self.joined.key]["data"]
        options = {"data": self.data, "whole": whole, "metrics": list(METRICS), "joined": self.joined.key}
        return Cell(f"{self.name}: EASE", f"{_WORK}:ease", options, {"path": str(self.path.absolute())})

    def tuning(self, method: Method, found: Found = NOTHING) -> dict[Setting, Training]:
        """Runs of the first round, and those of the second once the first is done."""
        first, second = (QUICK_FIRST, QUICK_SECOND) if self.plan.quick else (FIRST, SECOND)
        runs = {setting: self._tried(setting) for setting in method.settings(first)}
        if any(one.cell.key not in found for one in runs.values()):
            return runs
        values = {setting: validation_value(found[one.cell.key], self.chosen_by) for setting, one in runs.items()}
        return runs | {setting: self._tried(setting) for setting in method.around(values)[:second]}

    def reported(self, method: Method, found: Found, *changes: str) -> list[Training]:
        """Runs of the chosen setting with all training pairs, for the number of epochs that was best on validation."""
        setting = self.chosen(method, found)
        if setting is None or self.joined.key not in found:
            return []
        result = self.tried_result(setting, found)
        if "diverged" in result:
            return []
        lengths = [f"{stage}.epochs={count}" for stage, count in result["epochs"].items()]
        all_changes = (*lengths, "validation.every=0", "validation.patience=null", *changes)
        whole = {"joined": self.joined.key, "data": found[self.joined.key]["data"]}
        return [self._run(setting, seed, all_changes, "test", **whole) for seed in self.plan.seeds]

    def tried_result(self, setting: Setting, found: Found) -> dict[str, Any]:
        """The result of a setting on validation."""
        return found[self._tried(setting).cell.key]

    def comparisons(self, found: Found) -> dict[str, Cell]:
        """By baseline, the comparison of all methods with it; none before all runs are done."""
        runs = {method.name: [one.cell.key for one in self.reported(method, found)] for method in self.methods}
        ease = self.ease(found)
        if ease is None or any(key not in found for keys in (*runs.values(), [ease.key]) for key in keys):
            return {}
        if any(self.chosen(method, found) is None for method in self.methods):
            return {}
        compared = finished(self, found) | ({"ease": [ease.key]} if is_done(ease.key, found) else {})
        options = {"runs": compared, "metrics": list(METRICS)}
        work = "songrank_paper.runs:compare"
        return {
            name: Cell(f"{self.title}: comparison with {name}", work, {**options, "baseline": name})
            for name in BASELINES
            if name in compared
        }

    def cells(self, found: Found) -> Iterator[Cell]:
        """All cells that are known so far."""
        yield self.joined
        for method in self.methods:
            yield from (one.cell for one in self.all_of(method, found))
        if (ease := self.ease(found)) is not None:
            yield ease
        yield from self.comparisons(found).values()

    def remarks(self, methods: Iterable[Method]) -> list[str]:
        """Remarks on the training."""
        return self.settings.remarks()

    def _tried(self, setting: Setting) -> Training:
        where = {"path": str(self.path.absolute())}
        return self._run(setting, TUNING_SEED, (), "validation", where, data=self.data)

    def _run(
        self,
        setting: Setting,
        seed: int,
        changes: Sequence[str],
        split: str,
        where: dict[str, str] | None = None,
        **data: str,
    ) -> Training:
        recipe = self.settings.fine_tuning(setting, seed, *changes)
        words = ", ".join(word for word in (recipe["loss"]["name"], setting.words) if word)
        options: dict[str, Any] = {"recipe": recipe, "splits": [split], **data}
        place = {**(where or {}), "device": self.plan.device}
        return Training(Cell(f"{self.title}: {words}, seed {seed}", f"{_WORK}:train", options, place))


def benchmark_protocols(plan: Plan, backbones: Sequence[str], changes: Sequence[str] = ()) -> list[BenchmarkProtocol]:
    """One per data set and backbone."""
    names = [name for name in plan.data if SETS[name].group == IR_BENCHMARK]
    if not names:
        raise UserError("a set of IR-Benchmark is needed; pass one with --data ir-health=ARCHIVE")
    return [BenchmarkProtocol(plan, name, backbone, changes) for name in names for backbone in backbones]
