"""What the Recommender answers: not what was met, honestly about strangers, measured as a plain loop measures."""

import math

import numpy as np
import pandas as pd
import pytest

from songrank.core.errors import UserError
from tests.estimators.small_recommender import NAMES, SMALL, clicks, small


@pytest.fixture(scope="module")
def table():
    return clicks()


@pytest.fixture(scope="module")
def fitted(table):
    return small(**NAMES).fit(table)


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
    with pytest.raises(UserError, match="unknown user 'stranger'"):
        fitted.recommend(["user 1", "stranger"], fallback="error")


def test_only_what_is_allowed_and_not_denied(table, fitted):
    some = [f"item {number}" for number in range(0, 25, 2)]
    found = fitted.recommend(k=1000, allow=some, deny=["item 0", "item 1", "no such item"])
    assert set(found["what"]) <= set(some) - {"item 0"}
    with pytest.raises(UserError, match="allow has no item known to the model"):
        fitted.recommend(allow=["no such item"])


def test_scores_are_the_models_own_and_order_what_is_recommended(fitted):
    found = fitted.recommend(["user 2"], k=5)
    again = fitted.predict(found.rename(columns={"who": "who"})[["who", "what"]])
    np.testing.assert_allclose(again, found["score"], atol=1e-6)
    assert (np.diff(found["score"]) <= 0).all()
    with pytest.warns(UserWarning, match=r"2 of 3 rows have .*, such as item 'y'; their score is NaN"):
        strange = fitted.predict(pd.DataFrame({"who": ["user 2", "x", "user 2"], "what": ["y", "item 1", "item 1"]}))
    assert np.isnan(strange).tolist() == [True, True, False]


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
    with pytest.raises(UserError, match="no row has a known user and a known item"):
        model.evaluate(pd.DataFrame({"who": ["x"], "what": ["y"]}))
    with pytest.raises(UserError, match="metric is 'ndgc@10'; expected one of"):
        model.evaluate(held, metrics=["ndgc@10"])


def test_users_and_items_in_tables(fitted):
    frame = pd.DataFrame({"age": [3, 4], "who": ["user 7", "user 9"]})
    plain = fitted.recommend(["user 7", "user 9"], k=2)
    pd.testing.assert_frame_equal(fitted.recommend(frame, k=2), plain)
    assert fitted.recommend({"who": ["user 7", "user 9"]}, k=2)["what"].tolist() == plain["what"].tolist()
    assert fitted.recommend(frame[["who"]].rename(columns={"who": "x"}), k=2)["what"].tolist() == plain["what"].tolist()
    barred = pd.DataFrame({"name": ["a", "b"], "what": ["item 1", "item 2"]})
    assert not {"item 1", "item 2"} & set(fitted.recommend(k=1000, deny=barred)["what"])
    with pytest.raises(UserError, match="has no column 'who'; expected it among a, b"):
        fitted.recommend(pd.DataFrame({"a": [1], "b": [2]}))
    with pytest.raises(UserError, match="expected a sequence"):
        fitted.recommend(5)


def test_what_was_met_without_being_liked_is_not_recommended():
    rows = [(user, (user * 5 + n) % 17, 0 if n % 4 == 0 else 1 + n % 5) for user in range(20) for n in range(8)]
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    for options in ({}, {"min_rating": 3}):
        found = small(data_options=options).fit(frame).recommend(k=100)
        known = set(found["item"])
        assert not set(zip(found["user"], found["item"], strict=True)) & {(u, i) for u, i, _ in rows}, options
        assert known <= set(range(17))


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
    with pytest.raises(UserError, match="4 labels, but the table 5 rows"):
        model.score(few, y[:4])


def test_one_user_alone_is_refused(fitted):
    with pytest.raises(UserError, match=r"expected a sequence: \['user 1'\]"):
        fitted.recommend("user 1")
