"""Ensembles: runs that differ in their seeds, combined into one run whose model averages their scores."""

from collections.abc import Sequence
from pathlib import Path

from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError
from songrank.data import open_dataset
from songrank.metrics import Evaluation
from songrank.models.model_folder import join_models, save_model
from songrank.serving.open import open_model
from songrank.training.config.recipe import Recipe
from songrank.training.run import evaluate_model, open_recipe_data
from songrank.training.run_directory import RunDirectory, lists_fingerprint


def make_ensemble(
    runs: Sequence[Path], path: Path, *, data: Path | None = None, device: str = "auto", overwrite: bool = False
) -> dict[str, Evaluation]:
    """Average the models of these runs, evaluate on the splits on which all runs were evaluated, and write a run.

    Raises a ``UserError`` unless the runs are finished and differ only in their seeds and paths.
    """
    directories, place = [RunDirectory(run) for run in runs], choose_device(device)
    recipes = [directory.recipe() for directory in directories]
    _check_alike(runs, recipes)
    if path.resolve() in [run.resolve() for run in runs]:
        raise DataError("is one of the runs", "choose another place with -o", file=str(path))
    target = RunDirectory(path)
    target.check_free(overwrite=overwrite, resumable=False)
    dataset = open_dataset(data) if data is not None else open_recipe_data(recipes[0])
    for directory in directories:
        directory.check_data(dataset)
    joined = join_models([open_model(run, place) for run in runs])
    found = {
        split: evaluate_model(joined.model, dataset, split, recipes[0])
        for split in ("validation", "test")
        if all((run / "evaluation" / f"{split}.json").exists() for run in runs)
    }
    repeatable = all(recipe.deterministic for recipe in recipes)
    changes = {"members": len(runs), "data": str(dataset.path.absolute()), "deterministic": repeatable}
    target.begin(recipes[0].model_copy(update=changes), dataset, overwrite=overwrite)
    save_model(joined, path)
    for split, evaluation in found.items():
        target.save_evaluation(split, evaluation, lists_fingerprint(dataset, split))
    target.note(status="finished", device=str(place), runs=[str(run) for run in runs])
    return found


def differ_in_seeds(runs: Sequence[Path]) -> bool:
    """Whether these runs have one recipe, so that they make an ensemble; other runs make a blend."""
    recipes = [without_seed(RunDirectory(run).recipe()) for run in runs]
    alike = {"members": None, "blend": None}
    return all(recipe.model_copy(update=alike) == recipes[0].model_copy(update=alike) for recipe in recipes)


def without_seed(recipe: Recipe) -> Recipe:
    """The recipe without the keys in which the runs of an ensemble may differ."""
    apart = {"title": "", "prepare": "", "data": "", "device": "auto", "deterministic": False, "seed": 0}
    return recipe.model_copy(update=apart)


def _check_alike(runs: Sequence[Path], recipes: Sequence[Recipe]) -> None:
    """Raise unless these runs have the same recipe with different seeds."""
    if len(runs) < 2:
        raise UserError(f"an ensemble needs at least two runs of one recipe with different seeds; got {len(runs)}")
    seen: dict[int, Path] = {}
    for run, recipe in zip(runs, recipes, strict=True):
        if recipe.members is not None:
            raise DataError("is an ensemble", "pass the runs that it combines", file=str(run))
        if without_seed(recipe) != without_seed(recipes[0]):
            what = f"has a different recipe from {runs[0]}"
            raise DataError(what, "expected runs that differ only in their seeds", file=str(run))
        if recipe.seed in seen:
            what = f"has the same seed as {seen[recipe.seed]}, {recipe.seed}"
            raise DataError(what, "expected runs with different seeds", file=str(run))
        seen[recipe.seed] = run
