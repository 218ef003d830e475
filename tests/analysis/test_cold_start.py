"""Metrics of warm and cold items apart."""

import itertools

import numpy as np
import polars as pl
import pytest
import torch

from songrank.analysis.cold_start import cold_start
from songrank.analysis.evaluate import Evaluated
from songrank.core.errors import DataError
from songrank.data import prepare
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from tests.oracles.formulas import ndcg

USERS, ITEMS = 60, 60


def log():
    random = np.random.default_rng(0)
    rows = [
        (user, item, 1 + int(random.integers(5)))
        for user in range(USERS)
        for item in random.permutation([x for x in range(ITEMS) if (x < 30) == (user < 30)])[:15]
    ]
    return pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")


def items():
    return pl.DataFrame({"item": range(ITEMS), "half": ["a" if x < 30 else "b" for x in range(ITEMS)]})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("cold"), "recommendation", cold_items=0.2, items=items())


def trained(place, recipe, *changes, **options):
    prepare("interactions", log(), place / "data", **options)
    small = ("model.dim=8", "fine_tuning.epochs=60", "fine_tuning.min_steps=1", "batch.irrelevant=8")
    Run.begin(load_recipe(recipe, [f"data={place / 'data'}", "device=cpu", *small, *changes]), place / "run").finish()
    return Evaluated.open(place / "run", device="cpu")


def expected(run, scores, *, cold):
    """NDCG@10 per user by loops."""
    dataset = run.dataset
    trained = set(dataset["train"].item.tolist())
    kept = [x for x in range(dataset.num_items) if (x not in trained) == cold]
    values = []
    for user in range(dataset.num_queries):
        part = dataset["test"].cold if cold else dataset["test"].pairs
        own = slice(*part.offsets[user : user + 2].tolist())
        wanted = dict(zip(part["item"][own].tolist(), part["label"][own].tolist(), strict=True))
        barred = set()
        for split, kind in itertools.product(("train", "validation", "test"), ("pairs", "cold")):
            table = getattr(dataset[split], kind)
            if table is not None and (split, kind) != ("test", "cold" if cold else "pairs"):
                barred |= set(table["item"][slice(*table.offsets[user : user + 2].tolist())].tolist())
        among = [x for x in kept if x in wanted or x not in barred]
        labels = [wanted.get(x, 0.0) for x in among]
        values.append(ndcg(scores[user][among].tolist(), labels, 10) if any(labels) else float("nan"))
    return values


def test_segments_are_ranked_among_themselves_as_by_loops(run):
    scores = run.scorer()(torch.arange(USERS)).detach()
    warm, cold = cold_start(run, metrics=["ndcg@10"])
    trained = len(set(run.dataset["train"].item.tolist()))
    assert (warm.name, warm.items, cold.name, cold.items) == ("warm items", trained, "cold items", ITEMS - trained)
    for segment in (warm, cold):
        wanted = np.array(expected(run, scores, cold=segment is cold))
        assert segment.users == np.isfinite(wanted).sum()
        assert segment.values["run"]["ndcg@10"] == pytest.approx(np.nanmean(wanted))


def test_methods_and_paired_differences(run):
    warm, cold = cold_start(run, metrics=["ndcg@10"])
    assert list(warm.values) == ["run", "popularity", "similarity of features", "random"]
    assert list(cold.values) == ["run", "popularity from features", "similarity of features", "random"]
    for segment, (name, values) in itertools.product((warm, cold), warm.values.items()):
        if name in segment.differences:
            gap = segment.values["run"]["ndcg@10"] - segment.values[name]["ndcg@10"]
            assert segment.differences[name]["ndcg@10"].mean == pytest.approx(gap)
            assert values
    assert cold.differences["random"]["ndcg@10"].low > 0  # halves are easy


def test_a_run_beside_it_is_compared_with_itself_as_equal(run):
    for segment in cold_start(run, [Evaluated.open(run.path, device="cpu")], metrics=["recall@5"]):
        assert segment.differences[str(run.path)]["recall@5"].mean == 0


def test_data_without_cold_items_and_other_data_are_errors(run, tmp_path):
    plain = trained(tmp_path, "recommendation")
    with pytest.raises(DataError, match="no test pair of an item without training pairs; prepare it with --cold"):
        list(cold_start(plain))
    with pytest.raises(DataError, match="was trained on other data"):
        list(cold_start(run, [plain]))
