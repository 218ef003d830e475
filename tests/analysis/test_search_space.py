"""A search space, in the words of the command line."""

import math

import pytest
import yaml

from songrank.analysis.search_space import default_search, read_grid, read_search
from songrank.core.errors import UserError
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe

RECIPE = {
    "data": "data",
    "model": "neumf",
    "warm_up": {"epochs": 1},
    "fine_tuning": {"epochs": 2},
    "losses": {"k-song": {"loss": {"k": 20}}},
}


@pytest.fixture
def source(tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    return str(tmp_path / "recipe.yaml")


@pytest.mark.parametrize(
    ("word", "ends", "size"),
    [
        ("loss.gamma=0.1..1.0", ("0.1", "1.0"), math.inf),
        ("loss.gamma = 0.1 .. 1", ("0.1", "1.0"), math.inf),
        ("fine_tuning.learning_rate=1e-4..1e-2:log", ("0.0001", "0.01"), math.inf),
        ("batch.relevant=5..20", ("5", "20"), 16),
        ("batch.relevant=5..20:log", ("5", "20"), 16),
        ("loss.margin=-1.5..2", ("-1.5", "2.0"), math.inf),
        ("loss.k=10,50,100,300", ("10", "50", "100", "300"), 4),
        ("loss.rank_offset=none,null ,4", ("null", "null", "4"), None),
        ("loss.rank_offset=None,4", ("null", "4"), 2),
        ("model.hidden=[64],[64, 32],[]", ("[64]", "[64, 32]", "[]"), 3),
        ("loss.surrogate=squared_hinge,logistic", ("squared_hinge", "logistic"), 2),
    ],
)
def test_words_of_a_search(word, ends, size):
    if size is None:
        with pytest.raises(UserError, match="different values"):
            read_search([word])
        return
    (found,) = read_search([word])
    assert (found.ends, found.size) == (ends, size)


def test_the_usual_search_follows_the_recipe(source):
    recipe = load_recipe(source, ["loss=k-song", "loss.k=8", "loss.gamma=0.05", "loss.rank_offset=7", "loss.margin=4"])
    assert default_search(recipe)[1:] == [
        "loss.gamma=0.05..1.0",
        "loss.margin=1.0..16.0:log",  # not whole numbers, although both ends are
        "loss.rank_offset=null,4,16,64,256,7",
        "loss.k=2,4,8,16",
    ]
    only = load_recipe(source, ["fine_tuning.epochs=0"])
    assert [word.partition("=")[0] for word in default_search(only)] == [
        "warm_up.learning_rate",
        "warm_up.loss.gamma",
        "warm_up.loss.temperature",
    ]


def test_the_usual_search_leaves_schedules_alone():
    stage = {"epochs": 9}
    loss = {"name": "faster-song", "gamma": {"c0": 1.0, "a": 0.5}, "surrogate": "exponential"}
    values = {"data": "data/clicks", "model": {"name": "neumf", "dropout": 0}, "fine_tuning": stage, "loss": loss}
    assert default_search(Recipe.read(values))[1:] == [
        "loss.temperature=0.25..4.0:log",
        "loss.rank_offset=null,4,16,64,256",
    ]


def test_the_usual_search_without_options_to_search_is_the_learning_rate_and_sigma():
    values = {"data": "data/clicks", "model": "neumf", "fine_tuning": {"epochs": 9}, "loss": "lambdarank"}
    expected = ["fine_tuning.learning_rate=0.000316..0.00316:log", "loss.sigma=0.25..4.0:log"]
    assert default_search(Recipe.read(values)) == expected


def test_a_range_whose_ends_are_exchanged_is_rejected():
    with pytest.raises(UserError, match=r"search 'loss.gamma=1.0..0.1': 1.0 is not below 0.1"):
        read_search(["loss.gamma=1.0..0.1"])


def test_a_grid_keeps_lists_together_and_an_empty_one_is_the_recipe_itself():
    assert read_grid("loss=song loss.gamma=0.1,0.3") == [["loss=song", f"loss.gamma={gamma}"] for gamma in (0.1, 0.3)]
    assert read_grid("model.hidden=[8,4],[] seed=0") == [
        ["model.hidden=[8,4]", "seed=0"],
        ["model.hidden=[]", "seed=0"],
    ]
    assert read_grid('fine_tuning.decay={"3":0.5,"6":0.1}') == [['fine_tuning.decay={"3":0.5,"6":0.1}']]
    assert read_grid("") == [[]]
