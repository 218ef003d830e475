"""Ids of users and items: each is found by its own value, whatever stands beside it and however it is written."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from songrank.core.errors import UserError
from tests.estimators.small_recommender import NAMES, clicks, small


def table(**columns):
    """Ten users with eight of twenty items each, as numbers from 0, and what else is told."""
    rows = [(user, (user * 3 + n * 7) % 20) for user in range(10) for n in range(8)]
    return pd.DataFrame(rows, columns=["user", "item"]).assign(**columns)


def sources(model, users):
    return [str(source) for source in model.recommend(users, k=1)["source"]]


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_a_fractional_id_is_found_whoever_is_asked_about_beside(kind):
    halves = table()
    halves = halves.assign(user=(halves["user"] / 2 + 0.1).astype(kind), item=(halves["item"] / 2).astype(kind))
    model = small().fit(halves)
    assert sources(model, [1.1]) == sources(model, np.array([1.1], kind)) == ["model"]
    assert sources(model, [1.1, 99.5]) == ["model", "popular"]
    assert np.isfinite(model.predict(halves[halves["item"] == 2.0])).all()
    assert 2.0 in set(model.recommend(k=20, exclude_seen=False)["item"])
    assert 2.0 not in set(model.recommend(k=20, exclude_seen=False, deny=[2.0])["item"])
    assert set(model.recommend(k=20, exclude_seen=False, allow=[2])["item"]) == {2.0}


def test_whole_numbers_are_found_beside_fractions_that_nobody_has():
    assert sources(small().fit(table()), [3.5, 3.0]) == ["popular", "model"]


@pytest.mark.parametrize("fitted", ["ns", "us", "ms"])
@pytest.mark.parametrize("asked", ["ns", "us", "ms", "python"])
def test_dates_are_found_in_any_unit(fitted, asked):
    frame = table()
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["item"], unit="D")
    model = small().fit(frame.assign(item=days.astype(f"datetime64[{fitted}]")))
    day = datetime.datetime(2024, 1, 5)
    asking = [day] if asked == "python" else np.array([day], f"datetime64[{asked}]")
    found = model.recommend(k=20, exclude_seen=False, deny=asking)
    assert set(model.recommend(k=20, exclude_seen=False)["item"]) - set(found["item"]) == {pd.Timestamp(day)}
    assert found["item"].dtype == f"datetime64[{fitted}]"


def test_nanoseconds_and_zones_tell_dates_apart():
    frame = table()
    close = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["item"] * 7, unit="ns")
    model = small().fit(frame.assign(item=close))
    assert len(set(model.recommend(k=20, exclude_seen=False)["item"])) == 20
    there = close.dt.floor("s") + pd.to_timedelta(frame["item"], unit="h")
    model = small().fit(frame.assign(item=there.dt.tz_localize("Asia/Tokyo")))
    same = [pd.Timestamp("2024-01-01 03:00", tz="Asia/Tokyo").tz_convert("UTC")]
    assert set(model.recommend(k=20, exclude_seen=False, allow=same)["item"]) == set(same)


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_durations_are_found_in_any_unit(unit):
    frame = table()
    model = small().fit(frame.assign(user=pd.to_timedelta(frame["user"], unit="D").astype(f"timedelta64[{unit}]")))
    assert sources(model, [datetime.timedelta(days=4), datetime.timedelta(days=400)]) == ["model", "popular"]


def test_columns_of_arrow_tables_are_ids_too():
    arrow = pa.table(clicks().to_dict("list"))
    users = arrow["who"].unique()
    for model in (small(**NAMES).fit(arrow), small(**NAMES).fit(clicks())):
        found = model.recommend(users, k=1)
        assert pl.DataFrame(found)["who"].to_list() == users.to_pylist()
    assert small().fit({"user": arrow["who"], "item": arrow["what"]}).recommend(["user 3"], k=1)["user"] == "user 3"


def test_numbers_and_texts_in_one_column_are_texts():
    mixed = table()
    mixed["user"] = [user if user % 2 else f"x{user}" for user in mixed["user"]]
    model = small().fit(mixed)
    assert sources(model, [3, "x4", "3", 4]) == ["model", "model", "model", "popular"]
    assert sources(model, np.array([3, "x4"], object)) == ["model", "model"]


@pytest.mark.parametrize("name", ["user", "item", "label", "time"])
def test_columns_that_were_not_fitted_count_nowhere(name):
    names = {**NAMES, "label": None, "time": None}
    rows = clicks().head(120)
    model, strange = small(**names).fit(rows), rows.assign(**{name: -1})
    assert np.array_equal(model.predict(strange), model.predict(rows))
    assert model.evaluate(strange).values == model.evaluate(rows).values
    assert small(**names).fit(strange).predict(strange).shape == (120,)


def test_a_saved_model_answers_commands_under_the_names_that_were_fitted(tmp_path, songrank):
    small(**NAMES).fit(clicks()).save(tmp_path / "model")
    done = songrank("recommend", tmp_path / "model", "-k", "1", "-o", tmp_path / "best.csv")
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "best.csv").columns == ["who", "what", "score", "rank", "source"]


def test_a_path_is_no_table(tmp_path):
    with pytest.raises(UserError, match=r"the table is '.*clicks\.csv'; read the file first"):
        small().fit(tmp_path / "clicks.csv")
