"""Counter-based random numbers against SplitMix64 on Python's big integers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.core.hashing import derive_key, random_bits, random_uniform
from songrank.sampling.item_draws import random_fractions

few = settings(derandomize=True, max_examples=60, deadline=None)
WORD = 2**64
INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))


def unsigned(value):
    return value % WORD


def signed(value):
    return value - WORD if value >= WORD // 2 else value


def splitmix64(state):
    """The output function of SplitMix64 (Steele, Lea and Flood 2014) at a state."""
    z = state % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def bits(key, counter):
    return splitmix64(unsigned(key) + (unsigned(counter) + 1) * 0x9E3779B97F4A7C15)


def test_the_first_outputs_are_those_published_for_splitmix64():
    from_zero = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [unsigned(value) for value in random_bits(0, torch.arange(3)).tolist()] == from_zero
    from_1234567 = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [unsigned(value) for value in random_bits(1234567, torch.arange(4)).tolist()] == from_1234567


@few
@given(key=INT64, counters=st.lists(INT64, min_size=1, max_size=5))
def test_random_bits_are_splitmix64_at_any_key_and_counter(key, counters):
    want = [signed(bits(key, counter)) for counter in counters]
    tensor = torch.tensor(counters, dtype=torch.int64)
    assert random_bits(key, tensor).tolist() == want
    assert random_bits(torch.tensor(key), tensor).tolist() == want


def test_keys_broadcast_against_counters():
    keys, counters = torch.tensor([[3], [-4]]), torch.tensor([7, 8, 9])
    want = [[signed(bits(key, counter)) for counter in (7, 8, 9)] for key in (3, -4)]
    assert random_bits(keys, counters).tolist() == want


@few
@given(words=st.lists(st.integers(0, 2**62), max_size=4))
def test_a_key_folds_its_words_one_after_the_other(words):
    key = 0
    for word in words:
        key = splitmix64(key + (word + 1) * 0x9E3779B97F4A7C15)
    assert derive_key(*words) == signed(key)
    assert -(2**63) <= derive_key(*words) < 2**63


def test_keys_of_other_words_or_another_order_differ():
    keys = [derive_key(*words) for words in [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 1, 2)]]
    assert len(set(keys)) == len(keys)


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


def test_what_is_given_is_left_as_it_was():
    key, counter = torch.tensor([3]), torch.tensor([5])
    random_bits(key, counter)
    random_fractions(key, 3)
    assert (key.item(), counter.item()) == (3, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_lie_strictly_between_zero_and_one_and_fill_it_evenly(dtype):
    draws, cells = 20_000, 20
    found = random_uniform(derive_key(3), torch.arange(draws), dtype)
    assert found.dtype == dtype
    assert ((found > 0) & (found < 1)).all()
    counts = torch.bincount((found * cells).long(), minlength=cells).double()
    chi_square = ((counts - draws / cells) ** 2 / (draws / cells)).sum().item()
    assert chi_square < (cells - 1) + 6.0 * (2.0 * (cells - 1)) ** 0.5


def test_neighbouring_counters_are_not_correlated():
    found = random_uniform(derive_key(5), torch.arange(20_001), torch.float64) - 0.5
    # Variance 1/12 each: the mean of 20,000 products has a deviation of 1/12/√20000 ≈ 0.0006.
    assert abs((found[1:] * found[:-1]).mean().item()) < 6 / 12 / 20_000**0.5


def test_the_order_of_the_counters_changes_nothing():
    order = torch.tensor([5, 0, 3, 1, 4, 2])
    assert random_bits(9, torch.arange(6))[order].equal(random_bits(9, order))
