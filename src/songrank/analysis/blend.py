"""Blends: runs of different models on the same data, combined into one run with weighted standardised scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from songrank.analysis.blend_weights import WeightChoice, choose_list_weights, choose_weights
from songrank.analysis.ensemble import without_seed
from songrank.analysis.finished_runs import flat
from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError
from songrank.data import Dataset, ListSplit, open_dataset
from songrank.metrics import Evaluation
from songrank.metrics.names import parse_metrics
from songrank.models.blend import check_weights
from songrank.models.blend_folder import blend_models
from songrank.models.document_lists import score_lists
from songrank.models.model_folder import ModelFolder, save_model
from songrank.serving.open import open_model
from songrank.training.build import policies
from songrank.training.config.recipe import BlendMember, BlendSection, Recipe
from songrank.training.run import evaluate_model, open_recipe_data
from songrank.training.run_directory import RunDirectory, lists_fingerprint
from songrank.training.trainer.batch_adapters import CatalogueAdapter
from songrank.training.trainer.history_adapters import make_adapter


@dataclass(frozen=True)
class Blended:
    """A blend of runs: the weight of each, 0 if it is left out, and the evaluation by split."""

    weights: tuple[float, ...]
    evaluation: Mapping[str, Evaluation]
    choice: WeightChoice | None
    """Validation values of each run and of the blend; None without a validation split."""


def blend_runs(
    runs: Sequence[Path],
    path: Path,
    *,
    weights: Sequence[float] | None = None,
    metric: str | None = None,
    data: Path | None = None,
    device: str = "auto",
    overwrite: bool = False,
    seed: int = 0,
) -> Blended:
    """Blend the models of these runs, evaluate on the splits on which all runs were evaluated, and write a run.

    Weights are chosen on the validation split (:func:`~songrank.analysis.blend_weights.choose_weights`), and runs of
    weight 0 are left out. Runs may be ensembles of seeds. Metrics and policies are those of the first run.

    Args:
        runs: finished runs on the same data set, with different recipes or seeds.
        path: directory of the new run.
        weights: one weight per run, with the sum 1; None to choose them on validation.
        metric: metric that chooses the weights; by default the validation metric of the first run.
        data: current path of the data set, if it was moved.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        overwrite: replace an existing run.
        seed: random seed of the sample of queries, if there are many.
    """
    directories, place = [RunDirectory(run) for run in runs], choose_device(device)
    recipes = [directory.recipe() for directory in directories]
    _check_distinct(runs, recipes)
    if path.resolve() in [run.resolve() for run in runs]:
        raise DataError("is one of the runs", "choose another place with -o", file=str(path))
    metric = _metric(metric or recipes[0].validation.metric)
    given = None if weights is None else _given(weights, len(runs))
    target = RunDirectory(path)
    target.check_free(overwrite=overwrite, resumable=False)
    dataset = open_dataset(data) if data is not None else open_recipe_data(recipes[0])
    for directory in directories:
        directory.check_data(dataset)
    folders = [open_model(run, place) for run in runs]
    choice = _choose(folders, dataset, recipes[0], metric, given, seed)
    weights = given if choice is None else choice.weights
    assert weights is not None
    kept = [number for number, weight in enumerate(weights) if weight]
    joined = blend_models([folders[number] for number in kept], [weights[number] for number in kept])
    recipe = _recipe(
        [(runs[number], recipes[number], weights[number]) for number in kept], metric if given is None else None
    )
    found = {
        split: evaluate_model(joined.model, dataset, split, recipe)
        for split in ("validation", "test")
        if all((run / "evaluation" / f"{split}.json").exists() for run in runs)
    }
    target.begin(recipe.model_copy(update={"data": str(dataset.path.absolute())}), dataset, overwrite=overwrite)
    save_model(joined, path)
    for split, evaluation in found.items():
        target.save_evaluation(split, evaluation, lists_fingerprint(dataset, split))
    told = None if choice is None else _told(choice)
    target.note(status="finished", device=str(place), runs=[str(run) for run in runs], weights=weights, choice=told)
    return Blended(weights, found, choice)


def _check_distinct(runs: Sequence[Path], recipes: Sequence[Recipe]) -> None:
    """Raise for fewer than two runs, a blend among them, or the same run twice."""
    if len(runs) < 2:
        raise UserError(f"a blend needs at least two runs on the same data; got {len(runs)}")
    for number, (run, recipe) in enumerate(zip(runs, recipes, strict=True)):
        if recipe.blend is not None:
            raise DataError("is a blend", "pass the runs that it combines", file=str(run))
        for other, earlier in zip(runs[:number], recipes, strict=False):
            if recipe.seed == earlier.seed and without_seed(recipe) == without_seed(earlier):
                what = f"has the same recipe and seed as {other}"
                raise DataError(what, "expected runs with different recipes or seeds", file=str(run))


def _metric(name: str) -> str:
    try:
        (metric,) = parse_metrics(name)
    except ValueError as error:
        raise UserError(str(error)) from None
    return str(metric)


def _given(weights: Sequence[float], runs: int) -> tuple[float, ...]:
    try:
        return check_weights(weights, runs)
    except ValueError as error:
        raise UserError(str(error)) from None


def _choose(
    folders: Sequence[ModelFolder],
    dataset: Dataset,
    recipe: Recipe,
    metric: str,
    weights: Sequence[float] | None,
    seed: int,
) -> WeightChoice | None:
    """Choose the weights on validation, or measure those that are given; None without a validation split."""
    if "validation" not in dataset or not bool((dataset["validation"].label > 0).any()):
        if weights is None:
            fix = "pass --weights, or prepare the data set with --validation 0.1"
            raise DataError("has no validation split with relevant items", fix, file=str(dataset.path))
        return None
    options = {key: value for key, value in policies(recipe).items() if key != "empty"}
    options |= {"weights": weights}
    part = dataset["validation"]
    try:
        if isinstance(part, ListSplit):
            scores = [score_lists(f.model, part.features, part.lengths, f.device) for f in folders]
            return choose_list_weights(scores, part.label, part.lengths, metric, **options)
        scorers: list[Callable[[torch.Tensor], torch.Tensor]] = []
        for folder in folders:
            adapter = make_adapter(dataset, folder.device, folder.model)
            assert isinstance(adapter, CatalogueAdapter)
            scorers.append(adapter.scorer(folder.model, "validation"))
        targets = dataset.relevance("validation", device=folders[0].device)
        return choose_weights(scorers, targets, metric, seed=seed, **options)
    except DataError:
        raise
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None


def _recipe(members: Sequence[tuple[Path, Recipe, float]], metric: str | None) -> Recipe:
    """The recipe of a blend: that of its first member, and the differences of each member from it."""
    base = members[0][1].model_copy(update={"members": None})
    section = BlendSection(
        metric=metric,
        members=[
            BlendMember(run=str(run), weight=weight, seed=recipe.seed, changes=_changes(base, recipe))
            for run, recipe, weight in members
        ],
    )
    names = " and ".join(dict.fromkeys(str(recipe.model["name"]) for _, recipe, _ in members))
    deterministic = all(recipe.deterministic for _, recipe, _ in members)
    changes = {"title": f"Blend of {names}", "members": len(members), "blend": section, "deterministic": deterministic}
    return base.model_copy(update=changes)


def _changes(base: Recipe, recipe: Recipe) -> dict[str, Any]:
    """The keys of a recipe whose values differ from those of another, by dotted name; None for missing keys."""
    own, others = (flat(without_seed(some).model_dump(mode="json")) for some in (recipe, base))
    return {key: own.get(key) for key in (*own, *others) if own.get(key) != others.get(key)}


def _told(choice: WeightChoice) -> dict[str, Any]:
    """The choice of weights, for ``run.json``."""
    gain = {"mean": choice.difference.mean, "standard_error": choice.difference.standard_error}
    told = {"metric": choice.metric, "queries": choice.num_queries, "alone": list(choice.alone), "blend": choice.value}
    return {**told, "blend_minus_best_member": gain}
