"""The CSR table: rows taken, cut, padded and made dense, against plain lists."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.csr import CSR, numpy_offsets, offsets

ROWS = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8)


def table_of(rows):
    return CSR.from_lengths([len(row) for row in rows], item=torch.tensor([x for row in rows for x in row]).long())


def lists_of(table):
    return [part.tolist() for part in table["item"].split(table.lengths.tolist())] if len(table) else []


@given(ROWS, st.data())
def test_taken_rows_are_those_of_the_lists(rows, data):
    table = table_of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    assert lists_of(table.take(torch.tensor(chosen).long())) == [rows[row] for row in chosen]
    pieces = list(table.pieces(torch.tensor(chosen).long(), entries=7, most_rows=3))
    assert [row for piece in pieces for row in lists_of(piece)] == [rows[row] for row in chosen]
    assert all(len(piece) == 1 or (piece.num_entries <= 7 and len(piece) <= 3) for piece in pieces)


@given(ROWS, st.integers(0, 7))
def test_the_end_of_each_row(rows, length):
    table = table_of(rows)
    ends = [row[len(row) - min(length, len(row)) :] for row in rows]
    assert lists_of(table.tail(length)) == ends
    width = max(map(len, ends))
    assert table.last(torch.arange(len(rows)), length).tolist() == [row + [-1] * (width - len(row)) for row in ends]


@given(ROWS)
def test_rows_of_entries_give_the_table_back(rows):
    table = table_of(rows)
    again = CSR.from_rows(table.row_of_entries(), len(rows), item=table["item"])
    assert lists_of(again) == rows
    assert numpy_offsets([len(row) for row in rows]).tolist() == table.offsets.tolist()


def test_offsets_are_int64_whatever_the_lengths_are():
    for lengths in ([], np.array([2, 1], np.int32), torch.tensor([2, 1], dtype=torch.uint8)):
        assert CSR.from_lengths(lengths).offsets.dtype == torch.int64
    assert numpy_offsets([]).dtype == np.int64
    assert offsets(torch.tensor([2, 1], dtype=torch.int32)).tolist() == [0, 2, 3]


def test_columns_of_different_lengths_are_rejected():
    with pytest.raises(ValueError, match="column 'label' is 'of length 1'; expected 2 entries, the sum of lengths"):
        CSR.from_lengths([2], item=[1, 2], label=[1.0])


@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_lists_cut_and_filled_up_are_those_of_plain_loops(length):
    rows = [[4, 5, 6], [], [1], [9, 8, 7, 6, 5]]
    lists = CSR.from_lengths([len(row) for row in rows], item=[i for row in rows for i in row])
    asked = torch.tensor([3, 1, 0, 0, 2])
    for found in (lists, lists.tail(length)):
        cut = [[item for item in row if item >= 0] for row in found.last(asked, length).tolist()]
        assert cut == [rows[row][-length:] for row in asked]
    owner, at = lists.entries(asked)
    assert list(zip(owner.tolist(), lists["item"][at].tolist(), strict=True)) == [
        (place, item) for place, row in enumerate(asked.tolist()) for item in rows[row]
    ]
    assert torch.equal(lists.tail(length).offsets.diff(), lists.offsets.diff().clamp(max=length))


def test_rows_become_a_matrix():
    table = CSR.from_lengths([1, 0], index=[2], value=[0.5])
    assert table.dense([1, 0], width=3).tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5]]
