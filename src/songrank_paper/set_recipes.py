"""The recipe of each data set: the included recipe of its name, else the most similar one, smaller in a quick run.

Settings of included recipes for single losses are dropped, since the tuning budgets of the losses differed. Here all
methods start from the same recipe, and their options are tuned with the same budget (``methods``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from songrank.data import CatalogueSplit, Dataset
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import resolve
from songrank.training.config.yaml_text import read_yaml, shipped_recipes
from songrank_paper.methods import Setting, find_method

METRICS = {
    "recommendation": ("ndcg@10", "ndcg@20", "ndcg@50"),
    "search": ("ndcg@1", "ndcg@3", "ndcg@5"),
    "labelling": ("ndcg@3", "ndcg@5"),
}
"""Metrics of the paper's tables."""
CHOSEN_BY = {"recommendation": "ndcg@20", "search": "ndcg@5", "labelling": "ndcg@5"}
"""The validation metric by which epochs and settings are chosen."""
_PAIRWISE = ("ranknet", "lambdarank", "approx-ndcg", "neural-ndcg", "gumbel-approx-ndcg", "pirank")
_ELSEWHERE = {"title", "data", "prepare", "device", "deterministic"}
_SHORT_LISTS = ("mq2008", "mq2007-agg")
_QUICK = {
    "neumf": ("model.dim=16", "model.hidden=[16]", "batch.queries=64", "batch.relevant=8", "batch.irrelevant=32"),
    "context-aware": ("model.dim=16", "model.blocks=1", "model.feed_forward=32", "batch.queries=16"),
    "label-mlp": ("model.hidden=[64]", "batch.queries=64"),
    "xml-cnn": ("model.dim=32", "model.filters=16", "model.bottleneck=64", "batch.queries=64"),
}
_QUICK_STEPS = {"warm_up": 80, "fine_tuning": 160}
_QUICK_RATES = {"neumf": {"warm_up": 5e-3, "fine_tuning": 1e-3}}
_QUICK_ROUNDS = 5


class SetRecipe:
    """The recipe of one data set, for every method.

    Args:
        name: name of the set.
        dataset: the set.
        quick: whether to use a small model and few epochs.
        changes: last changes of the recipe, in the notation of ``songrank train``.
    """

    def __init__(self, name: str, dataset: Dataset, *, quick: bool = False, changes: Sequence[str] = ()) -> None:
        self.name, self.task, self.items, self.quick = name, dataset.task, dataset.num_items, quick
        self.source = _source(name, dataset)
        of_paper = _paper_changes(name, dataset)
        smaller = _smaller(self.source, of_paper, dataset["train"].num_queries) if quick else []
        self.changes = (*of_paper, *smaller, *changes)

    def fine_tuning(self, setting: Setting, seed: int, *changes: str) -> dict[str, Any]:
        """The recipe of a run with a setting as plain values, without keys that do not affect the result."""
        all_changes = (*self.changes, *setting.changes, *self._cheaper(setting), *changes)
        recipe = _resolved(self.source, all_changes)
        stage = {**recipe["fine_tuning"], "learning_rate": recipe["fine_tuning"]["learning_rate"] * setting.rate}
        return {**recipe, "fine_tuning": stage, "seed": seed}

    def warm_up(self, seed: int, *changes: str) -> dict[str, Any]:
        """The recipe of the warm-up, which all methods share."""
        alone = ("loss=song", "fine_tuning={epochs: 0, learning_rate: 0.001, decay: {}, weight_decay: 0}")
        return {**_resolved(self.source, (*self.changes, *changes, *alone)), "seed": seed}

    def _cheaper(self, setting: Setting) -> list[str]:
        """Changes that reduce the cost of losses that compare all pairs of items."""
        name = setting.changes[0].removeprefix("loss=")
        rounds = [f"loss.sinkhorn_iterations={_QUICK_ROUNDS}"] if self.quick and name == "neural-ndcg" else []
        return rounds + (self._sample() if name in _PAIRWISE else [])

    def _sample(self) -> list[str]:
        """Changes that sample labels if there are many."""
        if self.task != "labelling" or self.items <= (100 if self.quick else 1000):
            return []
        return ["batch.relevant=20", f"batch.irrelevant={40 if self.quick else 300}"]

    def remarks(self, losses: Collection[str]) -> list[str]:
        """Remarks on the training of these losses on this set."""
        base = _resolved(self.source, self.changes)
        said = f"{self.name}: recipe {self.source}" + ("" if self.source == self.name else " (the most similar one)")
        said += f", {base['model']['name']}, {base['warm_up']['epochs']} + {base['fine_tuning']['epochs']} epochs"
        remarks = [said + (", reduced for a quick run." if self.quick else ".")]
        if self.task == "search":
            empty = {"one": "count as 1, as in the paper", "skip": "are skipped"}[base["evaluation"]["empty"]]
            remarks.append(f"{self.name}: queries without a relevant document {empty}.")
        if "neural-ndcg" in losses:
            setting = find_method(self.task, "neural-ndcg").settings(1)[0]
            rounds = self.fine_tuning(setting, 0)["loss"]["sinkhorn_iterations"]
            if rounds != 30:
                remarks.append(
                    f"{self.name}: NeuralNDCG has {rounds} Sinkhorn rounds instead of 30, to reduce its cost."
                )
            if self._sample():
                cut = "ApproxNDCG and NeuralNDCG, which compare all pairs of labels in a slate, use a sample"
                remarks.append(f"{self.name}: {cut}; the others use all {self.items:,} labels in every step.")
        return remarks


@cache
def _resolved(source: str, changes: tuple[str, ...]) -> dict[str, Any]:
    """An included recipe with changes, checked, as plain values; callers must not modify it."""
    values = read_yaml(shipped_recipes()[source], source)
    values.pop("losses", None)
    return plain_recipe(values, changes, source)


def plain_recipe(values: dict[str, Any], changes: Sequence[str], place: str) -> dict[str, Any]:
    """A recipe with changes, checked, as plain values, without keys that do not affect the result."""
    return Recipe.read(resolve(values, changes, place), place).model_dump(mode="json", exclude=_ELSEWHERE)


def paper_schedule(source: str) -> list[str]:
    """Changes to an included recipe whose schedule is not that of the paper, with the matching batch."""
    if source != "movielens-1m":
        return []
    stage = ["fine_tuning.epochs=180", "fine_tuning.decay={90: 0.25}", "fine_tuning.ema_decay=null"]
    return ["batch.relevant=20", *stage]


def _source(name: str, dataset: Dataset) -> str:
    shipped = shipped_recipes()
    if dataset.task == "search":
        return name if name in ("mslr-web30k", "yahoo-ltr") else "mslr-web30k"  # recipes with the paper's model
    if name in shipped:
        return name
    if dataset.task == "recommendation":
        return "movielens-1m"
    part = dataset["train"]
    return "labelling-text" if isinstance(part, CatalogueSplit) and part.tokens is not None else "labelling"


def _paper_changes(name: str, dataset: Dataset) -> tuple[str, ...]:
    task, changes = dataset.task, []
    if task == "labelling":
        changes.append("validation.every=1")
    changes += paper_schedule(_source(name, dataset))
    if task == "search" and _source(name, dataset) != name:
        changes.append("evaluation.empty=skip")
    if name in _SHORT_LISTS:
        # Complete lists make the memory exact; they are few, so that 100 epochs of warm-up would overfit.
        changes += ["batch.length=all", "warm_up.loss.gamma=1.0", "warm_up.epochs=5", "warm_up.decay={}"]
        changes += ["fine_tuning.epochs=60", "fine_tuning.decay={30: 0.1}"]
    return (f"evaluation.metrics=[{', '.join(METRICS[task])}]", f"validation.metric={CHOSEN_BY[task]}", *changes)


def _smaller(source: str, changes: tuple[str, ...], queries: int) -> list[str]:
    """A small model, and the number of epochs for a given number of steps."""
    recipe = _resolved(source, changes)
    model = recipe["model"]["name"]
    batch = _resolved(source, (*changes, *_QUICK[model]))["batch"]["queries"]
    steps = {stage: most * batch // max(queries, 1) for stage, most in _QUICK_STEPS.items()}
    epochs = {stage: min(recipe[stage]["epochs"], max(2, count)) for stage, count in steps.items()}
    fine = epochs["fine_tuning"]
    return [
        *_QUICK[model],
        *(f"{stage}.epochs={count}" for stage, count in epochs.items()),
        *(f"{stage}.learning_rate={rate}" for stage, rate in _QUICK_RATES.get(model, {}).items()),
        f"fine_tuning.decay={{{max(1, fine * 2 // 3)}: 0.25}}",
        f"validation.every={max(1, fine // 8)}",
    ]
