"""Numbers of a report."""

import math

import pytest

from songrank.analysis.report import formatting


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (formatting.figure, 0.20751, "0.2075"),
        (formatting.figure, None, "–"),
        (formatting.signed, 0.012, "+0.0120"),
        (formatting.short, 0.000123456, "0.0001235"),
        (formatting.short, 1234.5, "1234"),
        (formatting.duration, 10.83, "11 s"),
        (formatting.duration, 4000, "1 h 07 min"),
    ],
)
def test_a_number_is_shown_in_few_digits(show, value, text):
    assert show(value) == text


@pytest.mark.parametrize("show", [formatting.figure, formatting.signed, formatting.short])
def test_a_value_that_is_nan_is_a_dash(show):
    assert show(math.nan) == "–"


@pytest.mark.parametrize(("value", "text"), [(-0.5, "−0.5000"), (0.5, "+0.5000"), (-1e-9, "+0.0000"), (0.0, "+0.0000")])
def test_a_difference_has_a_sign_and_zero_is_not_negative(value, text):
    assert formatting.signed(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3570, "1 h 00 min"), (7260, "2 h 01 min")]
)
def test_a_duration_is_rounded_to_its_largest_units(seconds, text):
    assert formatting.duration(seconds) == text


def test_a_deviation_is_shown_only_where_there_are_several_seeds():
    assert formatting.mean_sd(0.5, None) == formatting.mean_sd(0.5, math.nan) == "0.5000"
    assert formatting.mean_sd(0.5, 0.25) == "0.5000 ± 0.2500"
