"""The Recommender: tables of any kind in and out, the command line's weights, honest answers, more data later."""

import datetime
import json
import math
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from songrank.data import prepare
from songrank.data.files import alone
from songrank.errors import UserError
from songrank.estimators import Recommender
from songrank.training import Run, load_recipe

SMALL = {"model.dim": 4, "model.hidden": [4], "batch.relevant": 4, "batch.irrelevant": 6, "warm_up.epochs": 1}


def small(**more):
    return Recommender(**{"epochs": 2, "options": SMALL, "verbose": 0, "device": "cpu", **more})


def clicks(users=30, items=25, seed=0):
    """Each user meets some items of one half of the catalogue; ids are texts in no special order."""
    random = np.random.default_rng(seed)
    rows = [
        (f"user {(user * 7) % users}", f"item {item}", int(random.integers(1, 6)), time)
        for user in range(users)
        for time, item in enumerate(random.permutation(items)[: 6 + user % 5])
    ]
    return pd.DataFrame(rows, columns=["who", "what", "stars", "when"])


NAMES = {"user": "who", "item": "what", "label": "stars", "time": "when"}


@pytest.fixture(scope="module")
def table():
    return clicks()


@pytest.fixture(scope="module")
def fitted(table):
    return small(**NAMES).fit(table)


def test_the_estimator_the_recipe_and_the_command_give_the_same_weights(tmp_path, table, songrank):
    model = small(**NAMES, folder=str(tmp_path / "estimator"), random_state=3).fit(table)
    changes = ["loss=song", "seed=3", "device=cpu", "fine_tuning.epochs=2"]
    changes += [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]

    columns = {"query_column": "who", "item_column": "what", "label_column": "stars", "time_column": "when"}
    prepare("interactions", table, tmp_path / "data", **columns)
    run = Run.begin(load_recipe("recommendation", [f"data={tmp_path / 'data'}", *changes]), tmp_path / "run")
    run.finish()

    table.to_csv(tmp_path / "clicks.csv", index=False)
    words = [word for name, column in columns.items() for word in (f"--{name.replace('_', '-')}", column)]
    songrank("data", "prepare", "interactions", tmp_path / "clicks.csv", "-o", tmp_path / "files", *words)
    songrank("train", "recommendation", f"data={tmp_path / 'files'}", *changes, "-o", tmp_path / "command")

    expected = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert (tmp_path / "estimator" / "run" / "model.safetensors").read_bytes() == expected
    assert (tmp_path / "command" / "model.safetensors").read_bytes() == expected
    assert model.evaluation_["test"].values == run.results["test"].values


KINDS = {
    "pandas": (lambda table: table, pd.DataFrame),
    "polars": (pl.from_pandas, pl.DataFrame),
    "arrow": (lambda table: pa.Table.from_pandas(table), pa.Table),
    "dict": (lambda table: {name: table[name].tolist() for name in table}, dict),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kind_of_table_comes_out(kind, table, fitted):
    make, expected = KINDS[kind]
    model = small(**NAMES).fit(make(table))
    found, plain = model.recommend(["user 3", "user 11"], k=4), fitted.recommend(["user 3", "user 11"], k=4)
    assert isinstance(found, expected)
    columns = found if kind == "dict" else found.to_pydict() if kind == "arrow" else found
    for name in ("who", "what", "rank", "source"):
        assert list(columns[name]) == list(plain[name]), name


def test_an_array_is_user_item_label_and_time():
    array = np.array([[user, 100 + (user * item) % 9, 1 + item % 5, item] for user in range(8) for item in range(1, 7)])
    found = small().fit(array).recommend(np.array([2, 5]), k=2)
    assert set(found["user"]) == {2, 5}
    assert set(found["item"]) <= set(range(100, 109))


DATES = [datetime.date(2024, 1, 1) + datetime.timedelta(days=day) for day in range(25)]


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([7 * number - 50 for number in range(25)], id="whole numbers"),
        pytest.param([f"№ {number}, “ü”\n" for number in range(25)], id="texts"),
        pytest.param([number + 0.5 for number in range(25)], id="fractions"),
        pytest.param(DATES, id="dates"),
        pytest.param([uuid.UUID(int=number) for number in range(25)], id="objects"),
    ],
)
def test_ids_of_any_type_come_out_as_they_went_in(ids):
    random = np.random.default_rng(1)
    rows = [(user, ids[item]) for user in range(12) for item in random.permutation(25)[:8]]
    columns = {"user": [user for user, _ in rows], "item": [item for _, item in rows]}
    frame = pd.DataFrame(columns)
    found = small().fit(frame).recommend([0, 5], k=3)
    known = {str(value) for value in ids} if isinstance(ids[0], uuid.UUID) else set(ids)
    assert len(found) == 6
    values = found["item"].tolist()
    assert {value.date() if hasattr(value, "date") else value for value in values} <= known
    assert found["user"].tolist() == [0, 0, 0, 5, 5, 5]


def test_nobody_is_recommended_what_he_has_met_unless_asked(table, fitted):
    everything = fitted.recommend(k=1000)
    met = set(zip(table["who"], table["what"], strict=True))
    given = set(zip(everything["who"], everything["what"], strict=True))
    assert not met & given
    assert len(met | given) == table["who"].nunique() * table["what"].nunique()  # the rest of the catalogue, all of it
    assert len(fitted.recommend(k=1000, exclude_seen=False)) == table["who"].nunique() * table["what"].nunique()


def test_who_was_never_seen_gets_what_was_asked_for_and_is_told(table, fitted):
    found = fitted.recommend(["user 1", "stranger"], k=3)
    assert found["source"].tolist() == ["model"] * 3 + ["popular"] * 3
    assert fitted.recommend(["user 1", "stranger"], k=3, fallback="none")["who"].tolist() == ["user 1"] * 3
    with pytest.raises(UserError, match="'stranger' was never seen"):
        fitted.recommend(["user 1", "stranger"], fallback="error")


def test_only_what_is_allowed_and_not_denied(table, fitted):
    some = [f"item {number}" for number in range(0, 25, 2)]
    found = fitted.recommend(k=1000, allow=some, deny=["item 0", "item 1", "no such item"])
    assert set(found["what"]) <= set(some) - {"item 0"}
    with pytest.raises(UserError, match="allow names no item"):
        fitted.recommend(allow=["no such item"])


def test_scores_are_the_models_own_and_order_what_is_recommended(fitted):
    found = fitted.recommend(["user 2"], k=5)
    again = fitted.predict(found.rename(columns={"who": "who"})[["who", "what"]])
    np.testing.assert_allclose(again, found["score"], atol=1e-6)
    assert (np.diff(found["score"]) <= 0).all()
    strange = fitted.predict(pd.DataFrame({"who": ["user 2", "x"], "what": ["y", "item 1"]}))
    assert np.isnan(strange).all()


def test_evaluate_agrees_with_a_plain_loop(table):
    held = table.groupby("who").tail(2)
    model = small(**NAMES, data_options={"split": "none"}).fit(table.drop(held.index))
    values = []
    known = set(table.drop(held.index)["what"])
    for who, rows in held[held["what"].isin(known)].groupby("who"):
        ranked = model.recommend([who], k=1000)["what"].tolist()
        label = dict(zip(rows["what"], rows["stars"], strict=True))
        gains = [2 ** label.get(item, 0) - 1 for item in ranked[:10]]
        dcg = sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
        ideal = sorted((2**y - 1 for y in label.values()), reverse=True)[:10]
        values.append(dcg / sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal)))
    assert model.evaluate(held).values["ndcg@10"] == pytest.approx(np.mean(values), abs=1e-6)
    assert model.score(held) == pytest.approx(np.mean(values), abs=1e-6)
    with pytest.raises(UserError, match="no row has a user and an item that were seen"):
        model.evaluate(pd.DataFrame({"who": ["x"], "what": ["y"]}))


def test_saved_and_loaded_it_answers_alike(tmp_path, fitted):
    fitted.save(tmp_path / "model")
    again = Recommender.load(tmp_path / "model", device="cpu")
    pd.testing.assert_frame_equal(again.recommend(k=5), fitted.recommend(k=5))
    assert again.get_params()["options"] == SMALL
    assert again.best_score_ == fitted.best_score_
    again.save(tmp_path / "model")  # over itself
    pd.testing.assert_frame_equal(Recommender.load(tmp_path / "model").recommend(k=5), fitted.recommend(k=5))


def _change(folder, **entries):
    told = json.loads((folder / "estimator.json").read_text())
    (folder / "estimator.json").write_text(json.dumps({**told, **entries}))


BREAKS = {
    "another class": (lambda f: _change(f, **{"class": "LabelRanker"}), "holds 'LabelRanker', not a Recommender"),
    "a newer version": (lambda f: _change(f, version=9), "format version 9"),
    "a folder to write to": (lambda f: _change(f, parameters={"folder": "x"}), "was changed by hand"),
    "no files": (lambda f: _change(f, files={}), "was changed by hand"),
    "files of another kind": (lambda f: _change(f, files=[]), "was changed by hand"),
    "a way out": (lambda f: _change(f, files={"../../secret": "0"}), "was changed by hand"),
    "other parameters": (lambda f: _change(f, parameters={"los": "song"}), "was changed by hand"),
    "a cut table": (lambda f: (f / "interactions.parquet").write_bytes(b"PAR1"), "checksum is another"),
    "a missing table": (lambda f: (f / "past.safetensors").unlink(), "cannot be read"),
    "no JSON": (lambda f: (f / "estimator.json").write_text("{"), "is not JSON"),
    "nothing": (lambda f: (f / "estimator.json").unlink(), "is missing"),
    "other weights": (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04."), "is damaged, or of another model"),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_damaged_folder_is_refused_in_one_line(how, tmp_path, fitted):
    fitted.save(tmp_path)
    harm, message = BREAKS[how]
    harm(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        Recommender.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_of_something_else_is_not_written_over(tmp_path, fitted):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="exists and holds no estimator.json"):
        fitted.save(tmp_path)


def test_more_interactions_keep_what_is_known(tmp_path, table):
    model = small(**NAMES).fit(table)
    before = dict(zip(model._past.query_ids, range(30), strict=True))
    model.save(tmp_path)
    again = Recommender.load(tmp_path)
    new = pd.DataFrame(
        {"who": ["a first one"] * 4 + ["user 1"], "what": ["item 1", "item 2", "0 new", "item 3", "0 new"],
         "stars": [5, 4, 3, 2, 5], "when": [100, 101, 102, 103, 104]}
    )  # fmt: skip
    again.set_params(verbose=0).partial_fit(new, epochs=1)
    assert set(again.recommend(["a first one"], k=3)["source"]) == {"model"}
    assert "0 new" not in again.recommend(["user 1"], k=1000)["what"].tolist()
    assert len(again._past.query_ids) == len(before) + 1
    assert again.recipe_.warm_up.epochs == 0
    with pytest.raises(UserError, match="has no label column 'stars'"):
        again.partial_fit(new.drop(columns="stars"))


def test_going_on_begins_where_the_last_fit_ended(table):
    """With hardly a step, weights of known users and items and the memory of known pairs are what they were."""
    model = small(**NAMES).fit(table)
    before = model._past
    new = pd.DataFrame({"who": ["a first one"] * 3, "what": ["item 1", "0 new", "item 2"], "stars": 5, "when": 200})
    model.set_params(learning_rate=1e-12).partial_fit(new, epochs=1)
    after = model._past
    users, items = after.query_ids.find(list(before.query_ids)), after.item_ids.find(list(before.item_ids))
    for name, rows in (("query_product.weight", users), ("item_hidden.weight", items)):
        assert torch.equal(after.weights[name][rows], before.weights[name])
    key = users[before.pairs // len(items)] * len(after.item_ids) + items[before.pairs % len(items)]
    assert torch.isin(key, after.pairs).all()
    known = before.memory["u"].isfinite()
    then, now = before.memory["u"][known], after.memory["u"][torch.searchsorted(after.pairs, key[known])]
    assert torch.corrcoef(torch.stack([then, now]))[0, 1] > 0.5  # moved on by a visit, not begun anew
    with pytest.raises(UserError, match="other sizes or parts"):
        model.set_params(options={**SMALL, "model.dim": 8}).partial_fit(new)
    with pytest.raises(UserError, match="other sizes or parts"):
        model.set_params(options={"model.dim": 4}, model="matrix-factorisation").partial_fit(new)


def test_users_and_items_in_tables(fitted):
    frame = pd.DataFrame({"age": [3, 4], "who": ["user 7", "user 9"]})
    plain = fitted.recommend(["user 7", "user 9"], k=2)
    pd.testing.assert_frame_equal(fitted.recommend(frame, k=2), plain)
    assert fitted.recommend({"who": ["user 7", "user 9"]}, k=2)["what"].tolist() == plain["what"].tolist()
    assert fitted.recommend(frame[["who"]].rename(columns={"who": "x"}), k=2)["what"].tolist() == plain["what"].tolist()
    barred = pd.DataFrame({"name": ["a", "b"], "what": ["item 1", "item 2"]})
    assert not {"item 1", "item 2"} & set(fitted.recommend(k=1000, deny=barred)["what"])
    with pytest.raises(UserError, match="has no column 'who'; it has a, b"):
        fitted.recommend(pd.DataFrame({"a": [1], "b": [2]}))
    with pytest.raises(UserError, match="expected several"):
        fitted.recommend(5)


def test_what_was_met_without_being_liked_is_not_recommended():
    rows = [(user, (user * 5 + n) % 17, 0 if n % 4 == 0 else 1 + n % 5) for user in range(20) for n in range(8)]
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    for options in ({}, {"min_rating": 3}):
        found = small(data_options=options).fit(frame).recommend(k=100)
        known = set(found["item"])
        assert not set(zip(found["user"], found["item"], strict=True)) & {(u, i) for u, i, _ in rows}, options
        assert known <= set(range(17))


def test_columns_called_like_ours_are_not_lost():
    frame = pd.DataFrame({"u": np.repeat(range(8), 6), "score": [(n * 7 + n // 6) % 20 for n in range(48)]})
    found = small(user="u", item="score", label=None, time=None).fit(frame).recommend([1], k=2)
    assert found.columns.tolist() == ["user", "item", "score", "rank", "source"]
    assert set(found["item"]) <= set(frame["score"])


def test_ids_that_pandas_made_fractions_of():
    rows = [(float(user), float((user * 3 + n) % 11), 2.5) for user in range(8) for n in range(6)]
    array = np.array(rows)
    model = small().fit(array)
    assert set(model.recommend([1, 2.0], k=2)["source"]) == {"model"}
    assert np.isfinite(model.predict(np.array([[1, 1]]))).all()
    with pytest.raises(UserError, match="missing|expected"):
        small().fit(pd.DataFrame({"user": [1, 2, np.nan, 3], "item": [1, 2, 3, 4]}))


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([f"u{n}".encode() for n in range(25)], id="bytes"),
        pytest.param(pd.date_range("2024", periods=25, freq="h", tz="Europe/Berlin"), id="times with a zone"),
        pytest.param(pd.timedelta_range("1s", periods=25), id="durations"),
        pytest.param([2**70 + n for n in range(25)], id="very large numbers"),
        pytest.param(pd.Categorical([f"c{n}" for n in range(25)]), id="categories"),
    ],
)
def test_stranger_ids_come_back_unchanged(ids):
    frame = pl.DataFrame({"user": np.repeat(range(10), 8), "item": pl.Series(list(ids) * 4)[:80]})
    frame = frame.with_columns(item=frame["item"].gather([(n * 7) % 25 for n in range(80)]))
    found = small().fit(frame).recommend(k=3)
    assert set(found["item"].to_list()) <= set(frame["item"].to_list())


def test_evaluate_measures_what_was_asked_about(table):
    held = table.groupby("who").tail(1)
    options = {**SMALL, "evaluation.empty": "zero"}
    model = small(**NAMES, options=options, data_options={"split": "none"}).fit(table.drop(held.index))
    few = held.iloc[:5]
    found = model.evaluate(few, metrics=["recall@20"])
    assert next(iter(found.per_query.values())).numel() == 5
    y = few["stars"].to_numpy()
    assert model.score(few.drop(columns="stars"), y) == model.score(few)
    several = table.groupby("who").tail(3)
    assert model.score(several, several["stars"]) != model.score(several, several["stars"][::-1].to_numpy())
    for bad in ([-1] * 5, [None] * 5, ["x"] * 5):
        with pytest.raises(UserError, match="expected"):
            model.score(few, bad)
    with pytest.raises(UserError, match="4 labels, and the table 5 rows"):
        model.score(few, y[:4])


def test_numpys_numbers_as_parameters(table):
    model = small(**NAMES, epochs=np.int64(1), learning_rate=np.float32(1e-3), random_state=np.random.default_rng(0))
    assert len(model.fit(table).history_) == 2
    with pytest.raises(UserError, match="random_state is 'x'"):
        small(**NAMES, random_state="x").fit(table)
    with pytest.raises(UserError, match="no value of a recipe"):
        small(**NAMES, options={"seed": object()}).fit(table)


def test_fits_in_threads_and_the_callers_random_numbers(table):
    before = torch.random.get_rng_state()
    alone = small(**NAMES).fit(table).recommend(k=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: small(**NAMES).fit(table).recommend(k=2), range(3)):
            pd.testing.assert_frame_equal(found, alone)


def test_nothing_is_left_behind_and_a_folder_is_one_fits_own(tmp_path, table, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = small(**NAMES).fit(table)
    assert not list(tmp_path.iterdir())
    assert len(model.recommend(k=1)) == 30

    kept = tmp_path / "kept"

    def meddle(line):
        with pytest.raises(UserError, match="is being fitted by another process"), alone(kept / "fit.lock", "fitted"):
            pass

    small(**NAMES, folder=str(kept), callbacks=[meddle]).fit(table)
    assert (kept / "run" / "model.json").exists()


def test_a_save_that_is_cut_short_leaves_the_one_before(tmp_path, table, fitted, monkeypatch):
    fitted.save(tmp_path / "model")
    monkeypatch.setattr("songrank.estimators.saving.write_whole", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        small(**NAMES, random_state=7).fit(table).save(tmp_path / "model")
    monkeypatch.undo()
    pd.testing.assert_frame_equal(Recommender.load(tmp_path / "model").recommend(k=3), fitted.recommend(k=3))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_without_its_data_a_saved_one_cannot_go_on(tmp_path, table, fitted):
    fitted.save(tmp_path)
    fitted.save(tmp_path, data=False)
    assert not (tmp_path / "past.safetensors").exists()
    again = Recommender.load(tmp_path)
    assert len(again.recommend(k=2)) == 60
    assert not any(b"user 1" in file.read_bytes() for file in tmp_path.glob("*.parquet"))
    with pytest.raises(UserError, match="save with data=True"):
        again.partial_fit(table)


def test_verbose_and_callbacks(table, capsys):
    lines = []
    small(**NAMES, callbacks=[lines.append]).fit(table)
    assert capsys.readouterr() == ("", "")
    assert [(line["stage"], line["epoch"]) for line in lines] == [
        ("warm-up", 1),
        ("fine-tuning", 1),
        ("fine-tuning", 2),
    ]
    small(**NAMES, verbose=1).fit(table)
    assert "fine-tuning, epoch 2" in capsys.readouterr().err


def test_scikit_learns_manners(table):
    with pytest.raises(NotFittedError, match="not fitted yet; call fit first"):
        small().recommend(["user 1"])
    model = small(**NAMES, loss="bce")
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(small(**NAMES), {"loss": ["song", "bce"]}, cv=KFold(2, shuffle=True, random_state=0)).fit(
        table
    )
    assert search.best_params_["loss"] in ("song", "bce")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "sonq"}, "loss.name is 'sonq'; expected one of song"),
        ({"epochs": -1}, "fine_tuning.epochs is -1"),
        ({"options": {"loss.gama": 1}}, "gama is no option of song; did you mean gamma?"),
        ({"user": "customer"}, "has no query column 'customer'"),
        ({"data_options": {"splt": "time"}}, "interactions has no option 'splt'|splt"),
    ],
)
def test_a_mistake_is_one_line(parameters, message, table):
    with pytest.raises(UserError, match=message) as caught:
        small(**{**NAMES, **parameters}).fit(table)
    assert "\n" not in str(caught.value)


def test_one_user_alone_is_refused(fitted):
    with pytest.raises(UserError, match=r"expected several: \['user 1'\]"):
        fitted.recommend("user 1")


def test_a_model_that_was_fitted_is_left_alone_by_a_fit_that_fails(table):
    model = small(**NAMES).fit(table)
    before = model.recommend(k=2)
    with pytest.raises(UserError):
        model.fit(pd.DataFrame({"who": ["a"], "what": [None]}))
    pd.testing.assert_frame_equal(model.recommend(k=2), before)
    assert torch.isfinite(torch.tensor(model.best_score_))
