"""A model is put beside popularity and EASE on validation, with a warning if it is below."""

import dataclasses

import pytest
import torch

from songrank.analysis import standing as module
from songrank.analysis.standing import standing
from songrank.baselines import measure
from songrank.data import open_dataset, prepare
from songrank.training.config.recipe_files import load_recipe


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return prepare("synthetic", None, tmp_path_factory.mktemp("standing") / "set", queries=150, items=50, pairs=3000)


def recipe(dataset, name="recommendation", *changes):
    return load_recipe(name, [f"data={dataset.path}", *changes])


def measured(dataset, add=0.0):
    """The results of EASE, with this added to the value of each user."""
    found = measure("ease", dataset, "validation", metrics=["ndcg@10"]).evaluation
    per_query = {name: value + add for name, value in found.per_query.items()}
    return dataclasses.replace(
        found, per_query=per_query, values={name: float(value.nanmean()) for name, value in per_query.items()}
    )


def test_all_values_are_on_one_line(dataset):
    found, popular = measured(dataset), measure("popularity", dataset, "validation", metrics=["ndcg@10"]).evaluation
    ease = found.values["ndcg@10"]
    expected = f"validation ndcg@10: {ease:.4f}, beside popularity {popular.values['ndcg@10']:.4f} and EASE {ease:.4f}"
    beside = standing(dataset, recipe(dataset), found)
    assert beside.line() == expected
    assert beside.warning() == ""


def test_a_model_below_a_baseline_is_warned_about(dataset):
    warning = standing(dataset, recipe(dataset), measured(dataset, add=-0.001)).warning()
    assert warning.startswith("the model is below EASE on validation: ndcg@10 -0.0010 [-0.0010, -0.0010]; ")
    noisy = measured(dataset)
    noise = torch.randn(150, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noisy.per_query["ndcg@10"].add_(noise - noise.mean() - 0.01)
    assert ", which is not significant; " in standing(dataset, recipe(dataset), noisy).warning()


def test_ease_is_not_compared_with_itself(dataset):
    assert list(standing(dataset, recipe(dataset, "ease"), measured(dataset)).beside) == ["popularity"]


def test_ease_is_left_out_where_it_takes_long(dataset, monkeypatch):
    monkeypatch.setattr(module, "EASE_ITEMS", 20)
    found = standing(dataset, recipe(dataset), measured(dataset))
    assert list(found.beside) == ["popularity"]
    assert found.line().endswith(" (EASE is not fitted for more than 20 items)")


def test_other_tasks_and_missing_values_have_no_baselines(dataset, tmp_path):
    assert standing(dataset, recipe(dataset), None) is None
    labels = prepare("synthetic", None, tmp_path / "labels", task="labelling", queries=20, items=10, pairs=60)
    assert standing(labels, recipe(labels, "labelling"), measured(dataset)) is None
    assert standing(open_dataset(dataset.path), recipe(dataset), measured(dataset, add=float("nan"))) is None
