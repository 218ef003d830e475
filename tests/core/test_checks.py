"""Argument checks: what is accepted, and messages that name the argument."""

import math

import numpy as np
import pytest
import torch

from songrank.core.checks import check_choice, check_int, check_number, check_same_shape, check_shape


@pytest.mark.parametrize("value", [3, np.int64(3), torch.tensor(3)])
def test_integers_of_every_library_are_accepted(value):
    assert check_int("k", value) == 3
    assert type(check_int("k", value)) is int


@pytest.mark.parametrize(("value", "error"), [(True, TypeError), (3.0, TypeError), ("3", TypeError), (0, ValueError)])
def test_other_values_are_rejected_by_name(value, error):
    with pytest.raises(error, match=r"^k is .*; expected a whole number of at least 1$"):
        check_int("k", value)


@pytest.mark.parametrize(
    ("value", "low_open", "high_open", "inside"),
    [
        (0, False, False, True),
        (0, True, False, False),
        (1, False, False, True),
        (1, False, True, False),
        (0.5, True, True, True),
        (-0.1, False, False, False),
        (math.nan, False, False, False),
    ],
)
def test_interval_ends_belong_to_the_interval_unless_open(value, low_open, high_open, inside):
    if inside:
        assert check_number("gamma", value, 0, 1, low_open=low_open, high_open=high_open) == value
    else:
        with pytest.raises(ValueError, match=r"^gamma is .*; expected a number in [\[(]0, 1[\])]$"):
            check_number("gamma", value, 0, 1, low_open=low_open, high_open=high_open)


def test_infinity_is_outside_an_unbounded_interval():
    with pytest.raises(ValueError, match=r"expected a number in \[0, inf\)$"):
        check_number("gamma", math.inf, 0)


def test_a_choice_names_all_choices():
    assert check_choice("ties", "stable", ("stable", "average")) == "stable"
    with pytest.raises(ValueError, match="^ties is 'best'; expected one of 'stable', 'average'$"):
        check_choice("ties", "best", ("stable", "average"))


def test_shapes_are_compared_with_all_allowed_ones():
    check_shape("mask", torch.zeros(1, 4), (1, 4), (2, 4), meaning="[1, L] or [B, L]")
    with pytest.raises(ValueError, match=r"^mask has shape \[3, 4\]; expected \[B, L\], here \[1, 4\] or \[2, 4\]$"):
        check_shape("mask", torch.zeros(3, 4), (1, 4), (2, 4), meaning="[B, L]")
    with pytest.raises(TypeError, match=r"^mask is 'list'; expected a tensor of shape \[B, L\]$"):
        check_shape("mask", [[0]], (1, 1), meaning="[B, L]")
    with pytest.raises(ValueError, match=r"^label has shape \[2\]; expected the shape of score, \[3\]$"):
        check_same_shape("label", torch.zeros(2), "score", torch.zeros(3))
