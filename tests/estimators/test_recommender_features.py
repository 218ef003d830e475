"""A Recommender with features of items and users."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from songrank import Recommender
from songrank.core.errors import DataError, UserError

ITEMS = 40
OPTIONS = {"model.dim": 8, "fine_tuning.min_steps": 1, "batch.relevant": 4, "batch.irrelevant": 8}
NEW = {"item": ["new b", "new a"], "half": ["b", "a"], "price": [1.0, None]}
COLD = ["i0", "i20"]


def log():
    """Each user has items of one half; no user has an item of COLD."""
    random = np.random.default_rng(0)
    rows = [
        (user, f"i{item}")
        for user in range(40)
        for item in random.permutation([x for x in range(ITEMS) if (x < 20) == (user < 20) and x % 20])[:9]
    ]
    return pl.DataFrame(rows, schema=["user", "item"], orient="row")


def items():
    halves = ["a" if x < 20 else "b" for x in range(ITEMS)]
    prices = [float(x % 7) for x in range(ITEMS)]
    return pl.DataFrame({"item": [f"i{x}" for x in range(ITEMS)], "half": halves, "price": prices})


def users():
    return pd.DataFrame({"user": range(40), "half": ["a" if x < 20 else "b" for x in range(40)]})


def made(**more):
    return Recommender(options=OPTIONS, epochs=20, verbose=0, device="cpu", **more)


@pytest.fixture(scope="module")
def fitted():
    return made().fit(log(), items=items())


def best(model, users, among):
    found = model.recommend(users, k=1, allow=among)
    return dict(zip(found["user"].to_list(), found["item"].to_list(), strict=True))


def test_items_without_interactions_are_ranked_by_their_features(fitted):
    assert fitted.recipe_.model["name"] == "matrix-factorisation"
    assert best(fitted, range(40), COLD) == {user: COLD[user >= 20] for user in range(40)}


def test_new_items_are_added_without_training_and_the_others_keep_their_scores(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    model = Recommender.load(tmp_path / "model")
    pairs = log().head(50)
    before, weights = model.predict(pairs), model.folder_.model.state_dict()["query_factors.weight"].clone()
    model.partial_fit(items=NEW)
    np.testing.assert_array_equal(model.predict(pairs), before)
    assert (model.folder_.model.state_dict()["query_factors.weight"] == weights).all()
    assert best(model, range(40), NEW["item"]) == {user: ["new a", "new b"][user >= 20] for user in range(40)}
    seen = model.recommend([0], k=ITEMS + 2)["item"].to_list()
    assert not set(seen) & set(log().filter(pl.col("user") == 0)["item"])
    assert len(seen) == ITEMS + 2 - 9
    again = Recommender.load(saved(model, tmp_path / "again"))
    assert best(again, [0, 39], NEW["item"]) == {0: "new a", 39: "new b"}
    assert set(best(again, [0, 39], ["new a"])) == {0, 39}


def saved(model, place):
    model.save(place)
    return place


def test_training_goes_on_with_the_vocabulary_of_the_fit(fitted, tmp_path):
    model = Recommender.load(saved(fitted, tmp_path / "model"))
    told = model.folder_.info["item_features"]
    model.partial_fit(items=NEW).partial_fit(pl.DataFrame({"user": [0, 77], "item": ["new a", "i3"]}), epochs=1)
    assert model.folder_.info["item_features"] == told
    assert "new b" in list(model.folder_.item_ids)
    assert model.recommend([77], k=1)["source"].to_list() == ["model"]


def test_features_of_users_are_read(tmp_path):
    model = made().fit(log(), items=items(), users=users())
    assert set(model.folder_.encoders) == {"item", "user"}
    loaded = Recommender.load(saved(model, tmp_path / "model"))
    pairs = log().head(20)
    np.testing.assert_array_equal(loaded.predict(pairs), model.predict(pairs))


def test_users_without_interactions_are_answered_from_their_features(tmp_path):
    table = pd.concat([users(), pd.DataFrame({"user": [77, 78], "half": ["a", "b"]})])
    model = made().fit(log(), items=items(), users=table)
    assert best(model, [77, 78], COLD) == {77: COLD[0], 78: COLD[1]}
    before = model.predict(log())
    model.partial_fit(users=pl.DataFrame({"user": [101, -5], "half": ["b", "a"]}), items=NEW)
    np.testing.assert_array_equal(model.predict(log()), before)
    loaded = Recommender.load(saved(model, tmp_path / "model"))
    found = loaded.recommend([-5, 101, 77], k=1, allow=NEW["item"])
    assert found["item"].to_list() == ["new a", "new b", "new a"]
    assert found["source"].to_list() == ["model"] * 3
    assert set(loaded.recommend([0], k=ITEMS)["item"]).isdisjoint(log().filter(pl.col("user") == 0)["item"])


def test_ids_are_added_to_a_model_that_was_saved_without_data(fitted, tmp_path):
    fitted.save(tmp_path / "model", data=False)
    model = Recommender.load(tmp_path / "model").partial_fit(items=NEW)
    assert best(model, [0, 39], NEW["item"]) == {0: "new a", 39: "new b"}


def test_unknown_values_are_counted(fitted, tmp_path, capsys):
    model = Recommender.load(saved(fitted, tmp_path / "model")).set_params(verbose=1)
    model.partial_fit(items={"item": ["x", "y"], "half": ["c", None], "price": [1.0, 2.0]})
    assert "1 value of half unknown in training\n2 new items\n" in capsys.readouterr().err
    assert np.isfinite(model.predict(pl.DataFrame({"user": [0, 0], "item": ["x", "y"]}))).all()


def test_known_items_are_not_added_again(fitted, tmp_path):
    model = Recommender.load(saved(fitted, tmp_path / "model"))
    model.partial_fit(items=items())
    assert len(model.folder_.item_ids) == ITEMS


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.partial_fit(), "interactions is missing; expected a table, or items or users alone"),
        (lambda m: m.partial_fit(items={"item": ["x"], "half": ["a"]}), "the table of items has other columns"),
        (lambda m: m.partial_fit(users=users()), "users is given, but fit had no users"),
    ],
)
def test_errors_of_partial_fit_keep_the_model(fitted, call, message):
    folder = fitted.folder_
    with pytest.raises((UserError, DataError), match=message):
        call(fitted)
    assert fitted.folder_ is folder


@pytest.mark.parametrize("model", ["auto", {"name": "ease"}])
def test_models_without_features_are_rejected(model):
    with pytest.raises(UserError, match="learns no vectors of items.*or leave out items"):
        Recommender(model=model, verbose=0).fit(log(), items=items())


def test_a_model_without_features_takes_no_new_items():
    model = made(model="two-tower").fit(log())
    with pytest.raises(UserError, match="fit had no items"):
        model.partial_fit(items=NEW)
