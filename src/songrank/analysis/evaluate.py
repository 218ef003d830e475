"""Evaluation of the model of a finished run."""

from pathlib import Path
from typing import Any

from songrank.core.errors import DataError
from songrank.core.processes import ALONE, Processes
from songrank.data import open_dataset
from songrank.metrics import Evaluation
from songrank.serving.open import open_model
from songrank.training.run import evaluate_model, open_recipe_data
from songrank.training.run_directory import RunDirectory


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
    directory = RunDirectory(path)
    recipe = directory.recipe()
    dataset = open_dataset(data) if data is not None else open_recipe_data(recipe)
    directory.check_data(dataset)
    if split not in dataset:
        raise DataError(f"has no {split} split", f"it has {', '.join(dataset)}", file=str(dataset.path))
    model = open_model(path, device).model
    return evaluate_model(model, dataset, split, recipe, processes=processes, **changes)
