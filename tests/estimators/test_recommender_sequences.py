"""The Recommender with a model of histories: the command's weights, strangers, more data, and saving."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.estimators import Recommender
from songrank.training import Run, load_recipe
from tests.estimators.small_recommender import small as ids_model

SMALL = {"batch.queries": 16, "warm_up.epochs": 20, "warm_up.learning_rate": 0.01}
MODEL = {"name": "sequence", "dim": 16, "blocks": 1, "length": 5, "dropout": 0.1}
ITEMS = 12


def small(**more):
    return Recommender(**{"model": MODEL, "epochs": 2, "options": SMALL, "verbose": 0, "device": "cpu", **more})


@pytest.fixture(scope="module")
def table():
    """30 visitors who go from each item to the next, 5 to 9 steps."""
    rows = [(f"v{v:02}", (5 * v + n) % ITEMS, 20 + n) for v in range(30) for n in range(5 + v % 5)]
    return pd.DataFrame(rows, columns=["who", "what", "when"])


NAMES = {"user": "who", "item": "what", "time": "when"}


@pytest.fixture(scope="module")
def fitted(table):
    return small(**NAMES).fit(table)


def first(found):
    return dict(zip(found["who"], found["what"], strict=True))


def test_a_fit_without_times_looks_for_none_later(table):
    turned = table.iloc[::-1].rename(columns={"when": "timestamp"})
    model = small(user="who", item="what", time=None).fit(turned)
    assert first(model.recommend(k=1)) == first(model.recommend_for(turned, k=1))


def test_the_estimator_the_recipe_and_the_command_give_the_same_weights(tmp_path, table, songrank):
    model = small(**NAMES, folder=str(tmp_path / "estimator"), random_state=3).fit(table)
    changes = ["loss=song", f"model={json.dumps(MODEL)}", "fine_tuning.epochs=2", "seed=3", "device=cpu"]
    changes += [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]
    columns = {"user_column": "who", "item_column": "what", "time_column": "when"}
    prepare("interactions", table, tmp_path / "data", **columns)
    run = Run.begin(load_recipe("sequences", [f"data={tmp_path / 'data'}", *changes]), tmp_path / "run")
    run.finish()
    done = songrank("train", "sequences", f"data={tmp_path / 'data'}", *changes, "-o", tmp_path / "command", "-q")
    assert done.returncode == 0, done.stderr
    expected = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert (tmp_path / "estimator" / "run" / "model.safetensors").read_bytes() == expected
    assert (tmp_path / "command" / "model.safetensors").read_bytes() == expected
    assert model.evaluation_["test"].values == run.results["test"].values


def test_a_name_alone_takes_the_recipe_for_sequences():
    assert Recommender(model="sequence")._default_recipe() == "sequences"
    assert Recommender(model={"name": "sequence", "dim": 8})._default_recipe() == "sequences"
    assert Recommender(model="history")._default_recipe() == "histories"
    assert Recommender(model="neumf")._default_recipe() == "neumf"
    assert Recommender(epochs=3)._default_recipe() == "recommendation"
    assert Recommender(model="lightgcn")._default_recipe() == "recommendation"
    assert Recommender()._default_recipe() == Recommender(model="auto")._default_recipe() == "auto"
    with pytest.raises(UserError, match="model.name is 'sequences'; did you mean 'sequence'"):
        Recommender(model="sequences").fit({"user": [1, 1, 1], "item": [1, 2, 3]})


def test_users_are_answered_by_what_came_last_and_strangers_by_what_they_bring(fitted, table):
    assert fitted.evaluation_["test"].values["ndcg@10"] > 0.8
    last = table.groupby("who")["what"].last()
    found = first(fitted.recommend(k=1))
    assert np.mean([found[who] == (what + 1) % ITEMS for who, what in last.items()]) > 0.8

    renamed = table.assign(who="a stranger to " + table["who"]).sample(frac=1.0, random_state=1)
    strangers = fitted.recommend_for(renamed, k=4)
    known = fitted.recommend(k=4)
    assert strangers["who"].tolist() == [f"a stranger to {who}" for who in known["who"]]
    assert strangers["what"].tolist() == known["what"].tolist()
    np.testing.assert_allclose(strangers["score"], known["score"], atol=1e-5)
    assert set(strangers["source"]) == {"model"}


def test_histories_of_any_kind_of_table(fitted):
    rows = {"user_id": [7, 7, 7, 4], "item": [3, 4, 5, 9]}  # without times: in order
    whole = fitted.recommend_for(rows, k=1)
    assert (whole["who"].tolist(), whole["what"].tolist()) == ([4, 7], [10, 6])
    polars = fitted.recommend_for(pl.DataFrame(rows), k=1)
    assert isinstance(polars, pl.DataFrame)
    assert polars["what"].to_list() == [10, 6]
    array = np.array([[7, 3, 30], [7, 5, 10], [7, 4, 20]])  # user, item, time: 5, 4, 3
    assert fitted.recommend_for(array, k=1, deny=[6])["what"].tolist() != [6]
    assert fitted.recommend_for(array, k=12)["what"].shape == (ITEMS - 3,)
    assert fitted.recommend_for(array, k=12, exclude_seen=False)["what"].shape == (ITEMS,)
    assert set(fitted.recommend_for(array, k=12, allow=[8, 9])["what"]) == {8, 9}
    with pytest.raises(UserError, match="cannot find the item"):
        fitted.recommend_for({"who": [1], "thing": [2]})


def test_a_model_of_ids_says_what_to_do_instead():
    rows = {"user": [1, 1, 1, 1, 2, 2, 2, 2], "item": [1, 2, 3, 4, 3, 2, 9, 1]}
    with pytest.raises(UserError, match="contains neumf, which does not read histories"):
        ids_model().fit(rows).recommend_for(rows)


def test_scores_of_pairs_and_figures_of_other_rows(fitted, table):
    pairs = pd.DataFrame({"who": ["v03", "v03", "nobody"], "what": [1, 2, 1]})
    with pytest.warns(UserWarning, match="1 of 3 rows have a user or item unknown in training, such as user 'nobody'"):
        scores = fitted.predict(pairs)
    everything = fitted.recommend(["v03"], k=ITEMS, exclude_seen=False).set_index("what")["score"]
    np.testing.assert_allclose(scores[:2], everything[[1, 2]], atol=1e-5)
    assert np.isnan(scores[2])
    last = table.groupby("who")["what"].last()
    following = pd.DataFrame({"who": last.index, "what": (last.to_numpy() + 1) % ITEMS})
    assert fitted.score(following) > 0.8
    following["what"] = (following["what"] + 2) % ITEMS
    assert fitted.score(following) < 0.7


def test_dates_of_nobody_are_refused_in_one_line(table):
    dated = table.assign(when=pd.to_datetime(table["when"], unit="D"))
    model = small(**NAMES).fit(dated)
    with pytest.raises(UserError, match="time has no rows; expected at least one"):
        model.recommend_for(dated[:0].assign(when=dated[:0]["when"].astype(str)), k=2)


def test_saved_and_loaded_it_answers_alike_and_goes_on(fitted, table, tmp_path):
    fitted.save(tmp_path / "saved")
    loaded = Recommender.load(tmp_path / "saved", device="cpu")
    pd.testing.assert_frame_equal(loaded.recommend(k=3), fitted.recommend(k=3))
    pd.testing.assert_frame_equal(loaded.recommend_for(table, k=3), fitted.recommend_for(table, k=3))
    item = {str(key): row for key, row in zip(loaded.folder_.item_ids, loaded.folder_.model.item.weight, strict=True)}
    more = pd.DataFrame({"who": ["new"] * 4, "what": [3, 4, 5, 77], "when": [1, 2, 3, 4]})
    loaded.set_params(learning_rate=1e-30).partial_fit(more, epochs=1)
    weights = dict(zip(map(str, loaded.folder_.item_ids), loaded.folder_.model.item.weight, strict=True))
    assert set(weights) == {*item, "77"}
    assert all(torch.equal(weights[key], row) for key, row in item.items())
    assert first(loaded.recommend(["new"], k=1))["new"] in range(ITEMS)
    loaded.save(tmp_path / "saved", data=False)
    pd.testing.assert_frame_equal(
        Recommender.load(tmp_path / "saved", device="cpu").recommend(k=2), loaded.recommend(k=2)
    )


QUICK = {"epochs": 1, "options": {"warm_up.epochs": 1}, "verbose": 0, "device": "cpu"}


def test_a_sequence_model_goes_on_as_it_was_fitted(table, tmp_path):
    small_there = {"model.blocks": 1, "batch.queries": 4, "warm_up.epochs": 1}
    Recommender(**NAMES, **{**QUICK, "model": "sequence", "options": small_there}).fit(table).save(tmp_path / "saved")
    model = Recommender.load(tmp_path / "saved", device="cpu")
    shape = (model.recipe_.model["dim"], model.recipe_.model["length"])
    model.partial_fit(table.assign(when=table["when"] + 100), epochs=1)
    assert (model.recipe_.model["dim"], model.recipe_.model["length"]) == shape
    assert (model.recipe_.model["blocks"], model.recipe_.fine_tuning.epochs) == (1, 1)
    model.set_params(options={**small_there, "model.dim": 8})
    with pytest.raises(UserError, match="call fit to train a new model"):
        model.partial_fit(table.assign(when=table["when"] + 200), epochs=1)


def test_dates_and_numbers_do_not_stand_in_one_history(table):
    dated = table.assign(when=pd.Timestamp("2024-01-01") + pd.to_timedelta(table["when"], "D"))
    model = small(**NAMES).fit(dated)
    before = model.recommend(k=2)
    for other in (table, table.assign(when=table["when"].astype(float)), table.assign(when="2024-05-01")):
        with pytest.raises(UserError, match="columns are .*when|columns are .*time") as raised:
            model.partial_fit(other, epochs=1)
        assert "as in fit" in str(raised.value)
        pd.testing.assert_frame_equal(model.recommend(k=2), before)
    later = dated.assign(when=dated["when"].dt.date)  # days and moments are of one kind
    model.partial_fit(later, epochs=1)


@pytest.mark.parametrize(
    "told",
    [
        {"time": None},
        {"model": "neumf"},
        {"recipe": "recommendation"},
        {"data_options": {"split": "random"}},
    ],
    ids=str,
)
def test_who_says_otherwise_or_has_no_times_gets_another(table, told):
    model = Recommender(**{**NAMES, **QUICK, **told}).fit(table)
    assert model.recipe_.model["name"] == told.get("model", "matrix-factorisation")


@pytest.mark.parametrize("name", ["matrix-factorisation", "lightgcn"])
def test_models_of_the_tasks_recipe_have_cosine_scores_by_name(table, name):
    model = Recommender(**{**NAMES, **QUICK, "model": name}).fit(table)
    assert (model.recipe_.model["name"], model.recipe_.model["scoring"]) == (name, "cosine")


def test_a_recipe_that_is_named_is_taken_as_it_is(table):
    model = Recommender(**NAMES, **QUICK, recipe="sequences").fit(table)
    assert (model.recipe_.model["name"], model.recipe_.model["dim"]) == ("sequence", 128)
