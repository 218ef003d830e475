"""Defaults on small data: two disjoint tastes are kept apart; what a fit changes or leaves out is reported."""

import random
import re

import numpy as np
import pandas as pd
import pytest

from songrank.core.errors import UserError
from songrank.estimators import Recommender
from tests.estimators.small_recommender import NAMES, clicks, small


def two_tastes(seed, timed):
    """120 users of two tastes, each with 12 of the 30 items of its taste, in random order."""
    rng = random.Random(seed)
    rows = [(f"u{user}", f"{'ab'[user % 2]}{item}") for user in range(120) for item in rng.sample(range(30), 12)]
    table = pd.DataFrame(rows, columns=["user", "item"])
    return table.assign(time=[rng.randrange(10**6) for _ in rows]) if timed else table


@pytest.mark.parametrize(
    ("model", "seed", "timed"),
    [  # with schedules in epochs alone, up to 8 % of the first three models were of the wrong taste
        ("matrix-factorisation", 1, False),
        ("two-tower", 0, True),
        ("neumf", 2, True),
        ("history", 1, True),
        ("sequence", 0, True),
        ("auto", 2, True),
    ],
)
def test_two_tastes_are_kept_apart(model, seed, timed):
    budget = 5 if model == "auto" else None
    made = Recommender(model=model, budget=budget, verbose=0, device="cpu").fit(two_tastes(seed, timed))
    found = made.recommend(k=10)
    assert len(found) == 1200
    taste = found["user"].str[1:].astype(int) % 2
    assert (found["item"].str[0] == np.where(taste == 0, "a", "b")).all()


def test_an_explicit_number_of_epochs_is_exact():
    model = Recommender(model="neumf", epochs=2, options={"warm_up.epochs": 1, "validation.every": 1}, verbose=0)
    assert len(model.fit(two_tastes(0, False)).history_) == 3


def test_the_result_low_ratings_and_duplicates_are_reported(capsys):
    table = clicks()
    small(**NAMES, verbose=1).fit(pd.concat([table, table[:3]]))
    said = capsys.readouterr().err
    assert "dropped 3 repeated pairs of a user and an item; the last is kept\n" in said
    assert " and count as relevant; min_rating=3 leaves them out\n" in said
    assert "best checkpoint: " in said
    assert re.search(r"^validation ndcg@10: [.\d]+, beside popularity [.\d]+ and EASE [.\d]+$", said, re.MULTILINE)


def test_very_large_labels_are_legal(capsys, tmp_path):
    table = clicks().assign(stars=lambda frame: frame["stars"] * 1000.0)
    model = small(**NAMES, verbose=1).fit(table)
    said = capsys.readouterr().err
    assert "labels reach 5,000; the gain 2^y − 1 is infinite in float32" in said
    assert "gain=linear is used" in said
    assert model.recipe_.gain == "linear"
    assert 0 <= model.best_score_["validation"]["ndcg@10"] <= 1
    chosen = small(**NAMES, recipe="neumf")
    with pytest.raises(UserError, match=r"labels reach 5,000, .* pass gain=linear, or prepare smaller labels"):
        chosen.fit(table)
