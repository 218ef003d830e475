"""Keys of pairs against sets of Python tuples."""

from dataclasses import fields
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from songrank.core import pairs
from songrank.core.csr import CSR
from songrank.core.relevance import Relevance

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


TABLES = st.lists(st.lists(st.integers(0, NUM_ITEMS - 1), unique=True), max_size=12)


@given(TABLES, st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 5))
def test_rows_are_sorted_as_by_keys(found, seed, block_pairs, block_rows):
    label = torch.rand(sum(map(len, found)), generator=torch.Generator().manual_seed(seed)) + 1e-40
    item = torch.tensor([item for row in found for item in row], dtype=torch.int32)
    table = CSR.from_lengths([len(row) for row in found], item=item, label=label)
    with patch.multiple(pairs, _BLOCK_PAIRS=block_pairs, _BLOCK_ROWS=block_rows):
        rows = pairs.sorted_rows(table, NUM_ITEMS)
    key, labels = pairs.latest_pairs_by_key(table, NUM_ITEMS)
    assert torch.equal(pairs.pack(rows.row_of_entries(), rows["item"].long(), NUM_ITEMS), key)
    assert torch.equal(rows["label"], labels)
    assert rows["item"].dtype == torch.int32
    for entry, of_keys in zip(pairs.latest_pairs(table, NUM_ITEMS), (key, labels), strict=True):
        assert torch.equal(entry, of_keys)
    plain, fast = Relevance.from_keys(key, labels, len(found), NUM_ITEMS), Relevance.from_rows(rows, NUM_ITEMS)
    for entry in fields(plain):
        one, other = getattr(plain, entry.name), getattr(fast, entry.name)
        same = torch.equal(one, other) and one.dtype == other.dtype if isinstance(one, torch.Tensor) else one == other
        assert same, entry.name


def test_as_many_items_as_fit_in_a_key():
    item = torch.tensor([2**31 - 2, 0, 5], dtype=torch.int32)
    table = CSR.from_lengths([2, 0, 1], item=item, label=torch.tensor([1.0, 3.0, 2.0]))
    rows = pairs.sorted_rows(table, 2**31 - 1)
    assert (rows["item"].tolist(), rows["label"].tolist()) == ([0, 2**31 - 2, 5], [3.0, 1.0, 2.0])


@pytest.mark.parametrize(("item", "label"), [([1, 1], [1.0, 2.0]), ([1, 2], [1.0, 0.0]), ([1, 2], [1.0, float("nan")])])
def test_repeated_pairs_and_other_labels_need_the_keys(item, label):
    table = CSR.from_lengths([2], item=torch.tensor(item), label=torch.tensor(label))
    assert pairs.sorted_rows(table, NUM_ITEMS) is None


def test_rows_with_an_unknown_item_or_an_infinite_label_are_rejected():
    table = CSR.from_lengths([2], item=torch.tensor([1, NUM_ITEMS]), label=torch.ones(2))
    with pytest.raises(ValueError, match="item is 'out of range'"):
        pairs.sorted_rows(table, NUM_ITEMS)
    table = CSR.from_lengths([2], item=torch.tensor([1, 2]), label=torch.tensor([1.0, torch.inf]))
    with pytest.raises(ValueError, match="finite number"):
        Relevance.from_rows(pairs.sorted_rows(table, NUM_ITEMS), NUM_ITEMS)
