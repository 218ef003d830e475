"""Random fractions against SplitMix64 on Python's big integers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.hashing import derive_key
from songrank.sampling.fractions import random_fractions
from tests.core.test_hashing import INT64, bits, few


@few
@given(keys=st.lists(INT64, min_size=1, max_size=3), count=st.integers(1, 7))
def test_fractions_are_the_low_and_then_the_high_half_of_each_64_bit_number(keys, count):
    found = random_fractions(torch.tensor(keys), count)
    assert found.dtype == torch.float64
    for row, key in zip(found.tolist(), keys, strict=True):
        halves = [half for i in range(4) for half in (bits(key, i) % 2**32, bits(key, i) // 2**32)]
        assert row == [(half + 2**31) % 2**32 / 2**32 for half in halves[:count]]


@pytest.mark.parametrize("bound", [2, 7, 50])
def test_numbers_below_a_bound_are_uniform(bound):
    draws = 20_000
    found = (random_fractions(torch.tensor(derive_key(11)), draws) * bound).floor().long()
    counts = torch.bincount(found, minlength=bound).double()
    assert len(counts) == bound
    chi_square = ((counts - draws / bound) ** 2 / (draws / bound)).sum().item()
    # Mean bound − 1, deviation √(2(bound − 1)): six deviations would be astonishing.
    assert chi_square < (bound - 1) + 6.0 * (2.0 * (bound - 1)) ** 0.5


@pytest.mark.parametrize("bound", [1, 3, 2**31 - 1, 2**32 - 1])
def test_the_largest_fraction_stays_below_every_bound(bound):
    largest = torch.tensor((2**32 - 1) / 2**32, dtype=torch.float64)
    assert (largest * bound).floor().item() <= bound - 1


def test_the_key_is_not_changed():
    key = torch.tensor([3])
    random_fractions(key, 3)
    assert key.item() == 3
