"""Evaluation of the model of a finished run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from songrank.analysis.finished_runs import Method
from songrank.core.errors import DataError, UserError
from songrank.core.processes import ALONE, Processes
from songrank.core.relevance import Relevance
from songrank.data import Dataset, open_dataset
from songrank.metrics import Evaluation, ListFigures, list_figures, top_items
from songrank.models.base import RankingModel
from songrank.serving.open import open_model
from songrank.training.build import policies
from songrank.training.config.recipe import Recipe
from songrank.training.run import evaluate_model, open_recipe_data
from songrank.training.run_directory import RunDirectory
from songrank.training.trainer.batch_adapters import CatalogueAdapter
from songrank.training.trainer.history_adapters import make_adapter


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The model of a finished run with its data set, and the split to evaluate."""

    path: Path
    split: str
    recipe: Recipe
    dataset: Dataset
    model: RankingModel

    @classmethod
    def open(cls, path: Path, split: str = "test", *, data: Path | None = None, device: str = "auto") -> Self:
        """Open a run; ``data`` is the new location of a moved data set."""
        directory = RunDirectory(path)
        recipe = directory.recipe()
        dataset = open_dataset(data) if data is not None else open_recipe_data(recipe)
        directory.check_data(dataset)
        if split not in dataset:
            raise DataError(f"has no {split} split", f"it has {', '.join(dataset)}", file=str(dataset.path))
        return cls(path, split, recipe, dataset, open_model(path, device).model)

    def evaluate(self, targets: Relevance | None = None, **changes: Any) -> Evaluation:
        """Metrics with the policies of the recipe, or with ``changes``; ``targets`` replaces those of a catalogue."""
        if targets is None:
            return evaluate_model(self.model, self.dataset, self.split, self.recipe, **changes)
        adapter = self._adapter().with_targets(self.split, targets.to(next(self.model.parameters()).device))
        options = {"metrics": self.recipe.evaluation.metrics, **policies(self.recipe), **changes}
        try:
            return adapter.evaluate(self.model, self.split, **options)
        except (ValueError, OverflowError) as error:
            raise UserError(str(error)) from None

    def scorer(self) -> Callable[[Tensor], Tensor]:
        """The function from ids of users [b] to scores [b, N] of all items."""
        device = next(self.model.parameters()).device
        score = self._adapter().scorer(self.model, self.split)
        return lambda query: score(query.to(device))

    def need_recommendation(self) -> None:
        """Raise unless the run is for recommendation."""
        if self.dataset.task != "recommendation":
            what = f"contains a model for {self.dataset.task}"
            raise DataError(what, "expected one for recommendation", file=str(self.path))

    def list_figures(self, k: int = 10, item_vectors: Tensor | None = None) -> ListFigures:
        """Coverage, Gini index, novelty, popularity lift and diversity of the first k items of the split's users."""
        self.need_recommendation()
        adapter = self._adapter()
        top = top_items(adapter.scorer(self.model, self.split), adapter.targets(self.split), k)
        return list_figures(top, self.dataset.relevance("train"), item_vectors)

    def _adapter(self) -> CatalogueAdapter:
        adapter = make_adapter(self.dataset, next(self.model.parameters()).device, self.model)
        assert isinstance(adapter, CatalogueAdapter)
        return adapter


def evaluate_run(
    path: Path,
    split: str = "test",
    *,
    data: Path | None = None,
    device: str = "auto",
    processes: Processes = ALONE,
    **changes: Any,
) -> Evaluation:
    """Evaluate the model of a finished run with the metrics and policies of the recipe, or with ``changes``.

    Several ``processes`` share the queries; all of them have the result, which is that of one process.
    """
    return Evaluated.open(path, split, data=data, device=device).evaluate(processes=processes, **changes)


def method_list_figures(
    methods: Sequence[Method], split: str, k: int, *, data: Path | None = None, device: str = "auto"
) -> dict[str, dict[str, float]]:
    """Figures of the first k items by method, as means over its runs; baseline models have none."""
    found = {}
    for method in methods:
        runs = (Evaluated.open(path, split, data=data, device=device) for path in method.places)
        each = [run.list_figures(k).values() for run in runs]
        if each:
            found[method.label] = {name: sum(values[name] for values in each) / len(each) for name in each[0]}
    return found
