"""Features are transformed as training rows say, and new rows alike."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.impute import MissingIndicator
from sklearn.preprocessing import StandardScaler

from songrank.core.errors import DataError
from songrank.data.preparation.feature_transform import FeatureTransform, Moments

NAN = np.nan
VALUES = st.one_of(st.floats(-1e6, 1e6, width=32), st.just(NAN))


def rows_of(*rows):
    return np.array(rows, np.float32)


def fit(rows, **options):
    return FeatureTransform.fit([rows], rows.shape[1], **options)


def test_nothing_is_done_by_default():
    rows = rows_of([1, -2], [1e30, 0.1])
    assert fit(rows).apply(rows).tobytes() == rows.tobytes()


def test_standardised_by_hand():
    rows = rows_of([1, 10], [3, 30], [5, 20])
    transform = fit(rows, standardise=True)
    assert transform.mean.tolist() == [3, 20]
    assert transform.scale == pytest.approx([np.sqrt(8 / 3), np.sqrt(200 / 3)])
    assert transform.apply(rows_of([3, 20])).tolist() == [[0, 0]]


@pytest.mark.parametrize("log_features", ["none", "all"])
def test_a_constant_feature_becomes_zero_and_keeps_its_scale(log_features):
    rows = np.full((1000, 1), 0.1, np.float32)
    transform = FeatureTransform.fit(np.array_split(rows, 3), 1, standardise=True, log_features=log_features)
    assert transform.scale.tolist() == [1]
    assert not transform.apply(rows).any()
    change = 1.0 if log_features == "none" else np.log1p(1.1) - np.log1p(0.1)
    assert transform.apply(rows_of([1.1])) == pytest.approx(change)


def test_large_mean_beside_a_small_deviation():
    rows = (1e6 + np.arange(2000) % 2).astype(np.float32)[:, None]
    transform = FeatureTransform.fit(np.array_split(rows, 7), 1, standardise=True)
    assert transform.scale == pytest.approx([0.5], rel=1e-12)


@pytest.mark.parametrize(("missing", "filled"), [("zero", 0), ("mean", 3), ("min", 2)])
def test_missing_values(missing, filled):
    rows = rows_of([2, NAN], [4, NAN], [NAN, NAN])
    transform = fit(rows, missing=missing)
    assert transform.apply(rows).tolist() == [[2, 0], [4, 0], [filled, 0]]


def test_missing_values_do_not_count_in_the_moments():
    rows = rows_of([2], [4], [NAN])
    transform = fit(rows, standardise=True, missing="mean")
    assert transform.apply(rows).tolist() == [[-1], [1], [0]]
    assert fit(rows, standardise=True, missing="zero").apply(rows).tolist() == [[-1], [1], [-3]]


def test_flags_say_what_was_missing_and_are_standardised_too():
    rows = rows_of([2, 1, NAN], [4, 1, NAN], [NAN, 1, NAN], [NAN, 1, NAN])
    plain, scaled = fit(rows, missing="min", flags=3), fit(rows, missing="min", flags=3, standardise=True)
    assert plain.flags.tolist() == [0]  # the second is never missing, the third always
    assert plain.apply(rows).tolist() == [[2, 1, 0, 0], [4, 1, 0, 0], [2, 1, 0, 1], [2, 1, 0, 1]]
    assert scaled.apply(rows)[:, 3].tolist() == [-1, -1, 1, 1]
    assert (plain.num_given, plain.num_features) == (3, 4)
    assert plain.apply(rows_of([7, NAN, 5])).tolist() == [[7, 1, 5, 0]]


def test_only_the_first_features_have_flags_if_so_wanted():
    rows = rows_of([1, NAN, NAN], [NAN, 2, 3])
    assert [fit(rows, flags=count).flags.tolist() for count in range(4)] == [[], [0], [0, 1], [0, 1, 2]]


@settings(deadline=None, max_examples=40)
@given(
    rows=arrays.arrays(np.float32, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=VALUES),
    cuts=st.lists(st.integers(0, 30), max_size=3),
)
def test_flags_are_scikit_learns_indicators(rows, cuts):
    count = rows.shape[1]
    transform = FeatureTransform.fit(np.split(rows, sorted(cuts)), count, flags=count)
    indicator = MissingIndicator(features="missing-only").fit(rows)
    wanted = [at for at in indicator.features_ if not np.isnan(rows[:, at]).all()]
    assert transform.flags.tolist() == wanted
    assert (transform.apply(rows)[:, count:] == np.isnan(rows[:, wanted])).all()


def test_the_mean_that_fills_is_taken_after_the_logarithm():
    rows = rows_of([0], [np.e - 1], [NAN])
    assert fit(rows, log_features="all", missing="mean").apply(rows)[2] == pytest.approx(0.5)


def test_auto_takes_logarithms_of_heavy_tails_that_are_never_negative():
    tail = np.r_[np.zeros(20), 100.0]
    rows = np.stack([tail, -tail, np.full(21, 3.0), np.r_[np.full(20, -0.1), 100.0], np.full(21, NAN)], axis=1)
    transform = fit(rows.astype(np.float32), log_features="auto")
    assert np.flatnonzero(transform.log).tolist() == [0]
    assert transform.apply(rows)[-1, :2] == pytest.approx([np.log(101), -100])


def test_a_tail_of_exactly_ten_means_is_not_heavy():
    rows = np.r_[np.zeros(9), 10.0].astype(np.float32)[:, None]
    assert not fit(rows, log_features="auto").log.any()


def test_logarithm_of_negative_values_keeps_their_sign():
    rows = rows_of([-9, 0], [9, NAN])
    assert fit(rows, log_features="all").apply(rows) == pytest.approx(rows_of([-np.log(10), 0], [np.log(10), 0]))


@settings(deadline=None, max_examples=60)
@given(
    rows=arrays.arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=VALUES),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
def test_merged_moments_are_those_of_all_rows(rows, cuts):
    moments = Moments(rows.shape[1])
    for block in np.split(rows.astype(np.float64), sorted(cuts)):
        moments.add(block)
    for at, column in enumerate(rows.T.astype(np.float64)):
        known = column[~np.isnan(column)]
        assert moments.count[at] == known.shape[0]
        if known.shape[0]:
            spread = np.abs(known).max()
            assert moments.mean[at] == pytest.approx(known.mean(), rel=1e-9, abs=1e-12 * spread)
            assert moments.deviation[at] == pytest.approx(known.std(), rel=1e-6, abs=1e-9 * spread)
            assert (moments.low[at], moments.high[at]) == (known.min(), known.max())


@settings(deadline=None, max_examples=40)
@given(rows=arrays.arrays(np.float32, st.tuples(st.integers(2, 30), st.integers(1, 4)), elements=VALUES))
def test_standardisation_is_scikit_learns(rows):
    some = ~np.isnan(rows).all(0)
    rows = rows[:, some]
    if not rows.shape[1]:
        return
    transform = fit(rows, standardise=True)
    scaler = StandardScaler().fit(rows.astype(np.float64))
    assert transform.mean == pytest.approx(scaler.mean_, rel=1e-9, abs=1e-9)
    spread = np.nanmax(np.abs(rows), axis=0)
    different = np.nanmax(rows, axis=0) - np.nanmin(rows, axis=0) > 1e-3 * spread  # where no one calls it constant
    assert transform.scale[different] == pytest.approx(scaler.scale_[different], rel=1e-6)


@pytest.mark.parametrize("log_features", ["none", "auto", "all"])
@pytest.mark.parametrize("flags", [0, 3])
def test_json_keeps_every_bit(log_features, flags):
    generator = np.random.default_rng(0)
    rows = np.exp(generator.normal(size=(500, 5)) * 3).astype(np.float32)
    rows[generator.random(rows.shape) < 0.1] = NAN
    transform = fit(rows, standardise=True, log_features=log_features, missing="mean", flags=flags)
    again = FeatureTransform.from_json(json.loads(json.dumps(transform.to_json())))
    assert again.apply(rows).tobytes() == transform.apply(rows).tobytes()


GOOD = {"log": [1], "mean": [0.0, 1.0], "scale": [1.0, 2.0], "missing": [0.0, 0.0]}
FLAGGED = {"mean": [0.0, 1.0, 0.5], "scale": [1.0, 2.0, 0.5]}


@pytest.mark.parametrize(
    "change",
    [
        {"log": [2]},
        {"log": [-1]},
        {"log": [0.5]},
        {"log": None},
        {"mean": [0.0]},
        {"mean": [[0.0, 1.0]]},
        {"mean": ["a", "b"]},
        {"mean": 3},
        {"scale": [1.0, 0.0]},
        {"scale": [1.0, -1.0]},
        {"missing": [NAN, 0.0]},
        {"missing": None},
        {"missing": [0.0]},
        {"flags": [0]},
        {"flags": [2], **FLAGGED},
        {"flags": [0, 0], **FLAGGED},
        {"flags": ["a"], **FLAGGED},
        {"flags": None, **FLAGGED},
        FLAGGED,
    ],
)
def test_json_that_describes_no_transformation(change):
    FeatureTransform.from_json(GOOD)
    FeatureTransform.from_json({**GOOD, **FLAGGED, "flags": [1]})
    with pytest.raises(DataError, match="is not a valid feature transformation"):
        FeatureTransform.from_json({**GOOD, **change})


def test_json_with_a_part_missing():
    with pytest.raises(DataError, match="is not a valid feature transformation"):
        FeatureTransform.from_json({"mean": [1.0]})


def test_float16_where_it_fits_and_not_where_it_does_not():
    rows = rows_of([65504.0, 1.0])
    assert fit(rows).apply(rows, np.float16).dtype == np.float16
    with pytest.raises(DataError, match=r"feature 1 \(from 0\) becomes 70000, which overflows float16; use dtype"):
        fit(rows).apply(rows_of([0, 70000.0]), np.float16)


def test_what_leaves_float32_after_scaling_is_refused():
    transform = fit(rows_of([0], [1e-20]), standardise=True)
    with pytest.raises(DataError, match="overflows float32"):
        transform.apply(rows_of([3e38]))


def test_rows_of_another_width():
    with pytest.raises(DataError, match=r"shape \[1, 3\]; expected \[documents, 2\]"):
        fit(rows_of([1, 2])).apply(rows_of([1, 2, 3]))
