"""Ids encoded block by block."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.io.tables.id_columns import IdColumn, number_integers


def encoded(blocks):
    column = IdColumn()
    for block in blocks:
        column.add(pl.Series(block))
    codes, ids = column.finish()
    return [ids[int(code)] for code in codes], list(ids)


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), min_size=1), st.booleans())
def test_whole_numbers_stay_numbers_in_their_own_order_even_as_texts(blocks, texts):
    flat = [value for block in blocks for value in block]
    found, ids = encoded([[str(value) for value in block] for block in blocks] if texts else blocks)
    assert found == flat
    assert ids == sorted(set(flat))


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8")), min_size=1), min_size=1))
def test_texts_are_ordered_by_their_bytes(blocks):
    blocks = [["x", *block] for block in blocks]
    found, ids = encoded(blocks)
    assert found == [value for block in blocks for value in block]
    assert ids == sorted(set(found), key=str.encode)


@pytest.mark.parametrize("text", ["007", "+7", "1.0", "-0", str(2**63)])
def test_other_spellings_of_numbers_make_all_ids_texts(text):
    assert encoded([[3, 20], [text]])[1] == sorted(["3", "20", text], key=str.encode)


@pytest.mark.parametrize("values", [[5, 3, 5], [10**15, -(10**15), 0, 10**15], []])
def test_ranks_are_those_of_numpy_for_dense_and_sparse_numbers(values):
    column = np.array(values, np.int64)
    rank, ids = number_integers(column)
    distinct, wanted = np.unique(column, return_inverse=True)
    assert rank.tolist() == wanted.tolist()
    assert list(ids) == distinct.tolist()
