"""Levels of values among training rows, beside plain counting."""

import json
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.core.errors import DataError
from songrank.data.preparation.quantiles import Quantiles

NAN = np.nan


def level_by_hand(column, value):
    below, equal = sum(x < value for x in column), sum(x == value for x in column)
    return min(max((below + equal / 2) / len(column), 0.001), 0.999)


@settings(deadline=None, max_examples=40)
@given(column=st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=60))
def test_the_level_of_a_training_value_is_counted(column):
    found = Quantiles.fit(np.array([column]).T).levels(np.array([column]).T).ravel()
    assert found == pytest.approx([level_by_hand(column, value) for value in column])


def test_many_distinct_values_have_few_knots_between_which_levels_are_close():
    column = np.random.default_rng(0).exponential(size=(5000, 1))
    quantiles = Quantiles.fit(column)
    assert quantiles.knots[0].shape[0] in (64, 65, 66)
    exact = (np.argsort(np.argsort(column[:, 0])) + 0.5) / 5000
    assert np.abs(quantiles.levels(column)[:, 0] - exact).max() < 0.01


def test_an_outlier_leaves_the_others_where_they_are():
    rows = np.random.default_rng(1).normal(size=(500, 1))
    outliers = np.concatenate([rows, [[1e30]], [[-1e30]]])
    scores = Quantiles.fit(outliers).normal_scores(outliers)
    assert np.abs(scores).max() < 3.1
    inner = np.abs(Quantiles.fit(rows).normal_scores(rows)) < 2.5
    assert scores[:500][inner] == pytest.approx(Quantiles.fit(rows).normal_scores(rows)[inner], abs=0.15)


def test_normal_scores_are_normal_quantiles_of_levels_at_knots():
    rows = np.array([[0.0], [0.0], [5.0], [7.0]])
    scores = Quantiles.fit(rows).normal_scores(rows).ravel()
    assert scores == pytest.approx([NormalDist().inv_cdf(level) for level in (0.25, 0.25, 0.625, 0.875)])


def test_missing_values_stay_missing_and_unknown_columns_are_in_the_middle():
    rows = np.array([[1.0, NAN, 3.0], [NAN, NAN, 3.0]])
    quantiles = Quantiles.fit(rows)
    assert quantiles.levels(rows)[:, [0, 2]] == pytest.approx(np.array([[0.5, 0.5], [NAN, 0.5]]), nan_ok=True)
    assert quantiles.levels(np.array([[2.0, 2.0, 2.0]])).tolist() == [[0.5, 0.5, 0.5]]
    assert quantiles.normal_scores(np.array([[2.0, 2.0, 2.0]])).tolist() == [[0, 0, 0]]


def test_json_gives_the_same_levels_to_the_bit():
    rows = np.random.default_rng(2).normal(size=(300, 3)).astype(np.float32)
    quantiles = Quantiles.fit(rows)
    again = Quantiles.from_json(json.loads(json.dumps(quantiles.to_json())))
    assert again.levels(rows).tobytes() == quantiles.levels(rows).tobytes()


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"knots": [[0.0]], "levels": []},
        {"knots": [[1.0, 0.0]], "levels": [[0.2, 0.4]]},
        {"knots": [[0.0, 1.0]], "levels": [[0.2, 1.0]]},
        {"knots": [[0.0, 1.0]], "levels": [[0.2]]},
        {"knots": [["x"]], "levels": [[0.2]]},
        {"knots": 3, "levels": 3},
    ],
)
def test_damaged_content_is_rejected(content):
    with pytest.raises(DataError, match="quantiles are not valid"):
        Quantiles.from_json(content)
