"""Keys of pairs against sets of Python tuples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from songrank.core import pairs
from songrank.core.csr import CSR

NUM_ITEMS = 7
keys = st.lists(st.integers(0, 40), unique=True).map(sorted).map(lambda found: torch.tensor(found, dtype=torch.int64))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, NUM_ITEMS - 1))))
def test_packing_is_undone_and_keeps_the_order_of_tuples(found):
    query, item = torch.tensor(found, dtype=torch.int64).view(-1, 2).unbind(1)
    packed = pairs.pack(query, item, NUM_ITEMS)
    again = zip(*(part.tolist() for part in pairs.unpack(packed, NUM_ITEMS)), strict=True)
    assert list(again) == found
    assert [found[at] for at in packed.argsort(stable=True)] == sorted(found)


@given(keys, keys)
def test_merging_and_leaving_out_are_those_of_sets(one, other):
    assert pairs.merge(one, other).tolist() == sorted(one.tolist() + other.tolist())
    assert pairs.without(one, other).tolist() == sorted(set(one.tolist()) - set(other.tolist()))


def test_repeated_pairs_are_rejected_with_their_rows():
    query, item = torch.tensor([1, 0, 1]), torch.tensor([3, 5, 3])
    message = r"^pair \(query=1, item=3, rows \[0, 2\]\) is repeated; expected each relevant pair once$"
    with pytest.raises(ValueError, match=message):
        pairs.sorted_keys(query, item, NUM_ITEMS, "relevant pair")


def test_sorted_pairs_stay_where_they_are():
    found, order = pairs.sorted_keys(torch.tensor([0, 1]), torch.tensor([5, 3]), NUM_ITEMS, "pair")
    assert (found.tolist(), order) == ([5, 10], None)


def test_of_repeated_pairs_the_last_label_counts():
    table = CSR.from_lengths([3, 2], item=[4, 1, 4, 0, 0], label=[1.0, 2.0, 3.0, 4.0, 5.0])
    key, label = pairs.latest_pairs(table, NUM_ITEMS)
    assert (key.tolist(), label.tolist()) == ([1, 4, 7], [2.0, 3.0, 5.0])


def test_items_outside_the_catalogue_are_rejected():
    with pytest.raises(ValueError, match="^item is 'out of range'; expected numbers from 0 to 6$"):
        pairs.table_keys(CSR.from_lengths([1], item=[7]), NUM_ITEMS)


@pytest.mark.parametrize(("queries", "items"), [(2**40, 2**30), (1, 2**31)])
def test_sizes_that_overflow_a_key_are_rejected(queries, items):
    with pytest.raises(ValueError, match="^num_items is "):
        pairs.check_size(queries, items)


@pytest.mark.parametrize("wrong", [[3, 3], [4, 2], [-1, 3], [0, 8]])
def test_keys_must_ascend_within_their_range(wrong):
    with pytest.raises(ValueError, match="^seen is "):
        pairs.check_keys("seen", torch.tensor(wrong), most=8)


def test_the_last_of_equal_keys():
    assert pairs.last_of_equal(torch.tensor([3, 3, 8])).tolist() == [False, True, True]
