"""Runs that differ in their seeds as one run: its model is the mean of theirs, evaluated as they were."""

from collections.abc import Sequence
from pathlib import Path

from songrank.data import open_dataset
from songrank.data.errors import DataError
from songrank.errors import UserError
from songrank.inference.model_folder import join_models, open_model, save_model
from songrank.metrics import Evaluation
from songrank.training.run import evaluate_run, open_recipe_data
from songrank.training.run_directory import RunDirectory, fingerprint, lists_fingerprint

_SPLITS = ("validation", "test")


def make_ensemble(
    runs: Sequence[Path],
    path: Path,
    *,
    data: Path | None = None,
    device: str = "auto",
    overwrite: bool = False,
) -> dict[str, Evaluation]:
    """Write a run whose model is the mean of these runs' models, and evaluate it on the splits that they were.

    Raises a ``UserError`` unless the runs are finished and differ in nothing but their seeds and places.
    """
    directories = [RunDirectory(run) for run in runs]
    recipes = [directory.recipe() for directory in directories]
    if len(runs) < 2:
        raise UserError(f"an ensemble of {len(runs)} run; expected at least two, of one recipe and different seeds")
    apart = {"title": "", "prepare": "", "data": "", "device": "auto", "seed": 0}
    for run, recipe in zip(runs[1:], recipes[1:], strict=True):
        if recipe.model_copy(update=apart) != recipes[0].model_copy(update=apart):
            what = f"follows another recipe than {runs[0]}"
            raise DataError(what, "expected runs that differ in nothing but their seeds", file=str(run))
    if recipes[0].members is not None:
        raise DataError("is an ensemble itself", "name the runs that it was made of", file=str(runs[0]))
    for number, recipe in enumerate(recipes):
        same = next(other for other in range(len(recipes)) if recipes[other].seed == recipe.seed)
        if same != number:
            what = f"has the seed of {runs[same]}, {recipe.seed}"
            raise DataError(what, "expected runs of different seeds", file=str(runs[number]))
    dataset = open_dataset(data) if data is not None else open_recipe_data(recipes[0])
    for directory in directories:
        directory.check_data(dataset)
    joined = join_models([open_model(run) for run in runs])
    told = recipes[0].model_copy(update={"members": len(runs), "data": str(dataset.path.absolute())})
    directory = RunDirectory(path)
    directory.begin(told, dataset, overwrite=overwrite)
    save_model(joined, path)
    found: dict[str, Evaluation] = {}
    for split in _SPLITS:
        if all((run / "evaluation" / f"{split}.json").exists() for run in runs):
            found[split] = evaluate_run(path, split, data=dataset.path, device=device)
            directory.save_evaluation(split, found[split], lists_fingerprint(dataset, split))
    directory.note(status="finished", data_sha256=fingerprint(dataset), runs=[str(run) for run in runs])
    return found
