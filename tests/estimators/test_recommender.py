"""The Recommender: the command line's weights, scikit-learn's manners, any table and any ids in and out."""

import datetime
import json
import uuid
import warnings
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

from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.estimators import Recommender
from songrank.training import Run, load_recipe
from tests.estimators.small_recommender import NAMES, SMALL, clicks, small


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

    columns = {"user_column": "who", "item_column": "what", "label_column": "stars", "time_column": "when"}
    prepare("interactions", table, tmp_path / "data", **columns)
    run = Run.begin(load_recipe("neumf", [f"data={tmp_path / 'data'}", *changes]), tmp_path / "run")
    run.finish()

    table.to_csv(tmp_path / "clicks.csv", index=False)
    words = [word for name, column in columns.items() for word in (f"--{name.replace('_', '-')}", column)]
    songrank("data", "prepare", "interactions", tmp_path / "clicks.csv", "-o", tmp_path / "files", *words)
    songrank("train", "neumf", f"data={tmp_path / 'files'}", *changes, "-o", tmp_path / "command")

    expected = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert (tmp_path / "estimator" / "run" / "model.safetensors").read_bytes() == expected
    assert (tmp_path / "command" / "model.safetensors").read_bytes() == expected
    assert model.evaluation_["test"].values == run.results["test"].values


def test_numpys_numbers_as_parameters(table):
    model = small(**NAMES, epochs=np.int64(1), learning_rate=np.float32(1e-3), random_state=np.random.default_rng(0))
    assert len(model.fit(table).history_) == 2
    with pytest.raises(UserError, match="random_state is 'x'"):
        small(**NAMES, random_state="x").fit(table)
    with pytest.raises(UserError, match="invalid parameter for a recipe"):
        small(**NAMES, options={"seed": object()}).fit(table)


def test_fits_in_threads_and_the_callers_random_numbers(table):
    before = torch.random.get_rng_state()
    alone = small(**NAMES).fit(table).recommend(k=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: small(**NAMES).fit(table).recommend(k=2), range(3)):
            pd.testing.assert_frame_equal(found, alone)


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


def test_folds_of_whole_users_are_reported(table):
    ordered = table.sort_values("who", kind="stable")
    first = ordered[ordered["who"].isin(sorted(set(ordered["who"]))[:15])]
    model = small(**NAMES).fit(first)
    with pytest.warns(UserWarning, match=r"of \d+ rows have a user unknown in training .*cv=KFold\(shuffle=True\)"):
        assert 0 <= model.score(ordered) <= 1
    with pytest.raises(UserError, match=r"no row has a known user .*in cross-validation with cv=KFold\(shuffle=True\)"):
        model.score(ordered[~ordered["who"].isin(first["who"])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(first)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "sonq"}, "loss.name is 'sonq'; did you mean 'song'"),
        ({"epochs": -1}, "fine_tuning.epochs is -1"),
        ({"options": {"loss.gama": 1}}, "unknown option 'gama' for loss 'song'; did you mean 'gamma'?"),
        ({"user": "customer"}, "has no user column 'customer'"),
        ({"data_options": {"splt": "time"}}, "unknown option 'splt' for interactions"),
    ],
)
def test_a_mistake_is_one_line(parameters, message, table):
    with pytest.raises(UserError, match=message) as caught:
        small(**{**NAMES, **parameters}).fit(table)
    assert "\n" not in str(caught.value)


def test_a_graph_model_with_options_is_fitted_continued_and_saved(table, tmp_path):
    options = {"batch.relevant": 4, "batch.irrelevant": 6, "warm_up.epochs": 1}
    told = {"name": "lightgcn", "dim": 4, "layers": 3, "scoring": "cosine", "temperature": 0.2}
    model = small(**NAMES, model=told, options=options).fit(table)
    assert model.folder_.model.layers == 3
    before, edges = model.folder_.model.score_all(torch.arange(4)), model.folder_.info["sizes"]["edges"]
    assert before.abs().max() <= 5.0
    model.save(tmp_path / "saved")
    again = Recommender.load(tmp_path / "saved", device="cpu")
    assert torch.equal(again.folder_.model.score_all(torch.arange(4)), before)
    pd.testing.assert_frame_equal(again.recommend(k=3), model.recommend(k=3))
    again.partial_fit(table.iloc[:3].assign(who="a new user"), epochs=1)
    assert again.folder_.info["sizes"]["edges"] > edges
    assert "a new user" in again.recommend(k=1)["who"].tolist()


def test_a_model_that_was_fitted_is_left_alone_by_a_fit_that_fails(table):
    model = small(**NAMES).fit(table)
    before = model.recommend(k=2)
    with pytest.raises(UserError):
        model.fit(pd.DataFrame({"who": ["a"], "what": [None]}))
    pd.testing.assert_frame_equal(model.recommend(k=2), before)
    assert 0 <= model.best_score_["validation"]["ndcg@10"] <= 1


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
