"""Recipes have changes for shapes of data sets; explicit changes win."""

import json

import pytest

from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.training.config.data_shapes import FEW_PAIRS, FEW_USERS, SHORT_HISTORY, data_shapes
from songrank.training.config.recipe_files import load_recipe
from songrank.training.config.yaml_text import shipped_recipes

RECIPE = """
data: none
model: {name: neumf, dropout: 0.1}
fine_tuning: {epochs: 3}
shapes:
  few-users: {model: {dropout: 0.5}, fine_tuning: {reset_head: false}}
  short-histories: {batch: {queries: 32}}
losses:
  bce: {model: {dropout: 0.3}, batch: {queries: 16}}
"""


@pytest.fixture
def shaped(tmp_path):
    """A directory with the figures of a data set of this many users and this median."""

    def make(users, median, task="recommendation"):
        figures = {"queries_with_pairs": users, "relevant_per_query": {"median": median}}
        (tmp_path / "dataset.json").write_text(json.dumps({"task": task, "splits": {"train": figures}}))
        return tmp_path

    return make


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return lambda *changes: load_recipe(str(tmp_path / "recipe.yaml"), changes)


@pytest.mark.parametrize(
    ("users", "median", "shapes"),
    [
        (FEW_USERS, SHORT_HISTORY, ["few-users", "short-histories"]),
        (FEW_USERS + 1, SHORT_HISTORY + 0.5, []),
        (30_000, 6.0, ["short-histories"]),
        (943, 63.0, ["few-users"]),
        (100, FEW_PAIRS / 100, ["few-users", "few-pairs"]),
        (100, FEW_PAIRS / 100 + 1, ["few-users"]),
    ],
)
def test_the_figures_of_training_decide(shaped, users, median, shapes):
    assert data_shapes(shaped(users, median)) == shapes
    assert data_shapes(shaped(users, median, task="labelling")) == []


def test_a_prepared_data_set_has_a_shape(tmp_path):
    place = prepare("synthetic", None, tmp_path / "set", queries=60, items=80, pairs=3000).path
    assert data_shapes(place) == ["few-users", "few-pairs"]


def test_changes_of_shapes_come_after_losses_and_before_given_changes(recipe, shaped):
    few = f"data={shaped(100, 50)}"
    assert recipe().model["dropout"] == 0.1
    assert recipe().fine_tuning.reset_head
    assert recipe(few).model["dropout"] == 0.5
    assert not recipe(few).fine_tuning.reset_head
    assert recipe(few, "loss=bce").model["dropout"] == 0.5
    assert recipe(few, "loss=bce").batch.queries == 16
    assert recipe(few, "model.dropout=0.2").model["dropout"] == 0.2
    assert "dropout" not in recipe(few, "model=matrix-factorisation").model
    assert recipe(f"data={shaped(100, 5)}", "loss=bce").batch.queries == 32


def test_unknown_shapes_are_one_line(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("data: x\nmodel: neumf\nfine_tuning: {epochs: 1}\nshapes: {small: {}}\n")
    with pytest.raises(
        UserError, match="unknown shape 'small' in shapes; expected one of few-users, short-histories, few-pairs"
    ):
        load_recipe(str(file))
    file.write_text("data: x\nmodel: neumf\nfine_tuning: {epochs: 1}\nshapes: 3\n")
    with pytest.raises(UserError, match="shapes is 3; expected a mapping"):
        load_recipe(str(file))


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_included_recipes_are_valid_for_each_shape(name, shaped):
    for users, median in ((100, 5), (100, 500), (10**6, 5)):
        load_recipe(name, [f"data={shaped(users, median)}"])
