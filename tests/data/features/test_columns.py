"""Encoders of feature columns."""

import zlib

import numpy as np
import polars as pl
import pytest

from songrank.core.errors import DataError
from songrank.data.features.columns import KINDS, LEAST_WORDS, as_texts


def encoded(kind, values, new=None):
    values = pl.Series("x", values, strict=False)
    column = KINDS[kind].fit(values, values, "a.csv")
    return column, column.encode(values if new is None else pl.Series("x", new, strict=False), "b.csv")


def sparse(found):
    rows, at = [], 0
    for length in found.lengths.tolist():
        rows.append(dict(zip(found.index[at : at + length].tolist(), found.value[at : at + length], strict=True)))
        at += length
    return rows


def test_numbers_are_standardised_with_the_training_rows_and_missing_ones_are_marked():
    column, found = encoded("numeric", [1.0, 3.0, None], new=[3, None, 1e9])
    np.testing.assert_allclose(found.dense, [[1, 0], [0, 1], [10, 0]])
    assert found.lengths.tolist() == [1, 0, 1]  # the bin of a known number
    assert found.index.max() < column.sparse


def test_numbers_in_text_and_as_numbers_are_equal():
    numbers, texts = encoded("numeric", [4, None, 2, 9])[1], encoded("numeric", ["4", "", "2.0", " 9 "])[1]
    np.testing.assert_array_equal(numbers.dense, texts.dense)
    np.testing.assert_array_equal(numbers.index, texts.index)


def test_bins_have_equally_many_training_rows():
    found = encoded("numeric", list(range(100)))[1]
    assert np.bincount(found.index).tolist() == [10] * 10


def test_a_word_in_a_numeric_column_is_an_error_with_its_row():
    with pytest.raises(DataError, match="row 2: x is 'many'; expected a number"):
        encoded("numeric", ["1", "many"])


def test_dates_are_days_whatever_their_unit():
    whole = pl.Series("x", ["2020-01-01", "2020-01-11", None]).str.to_date()
    texts = pl.Series("x", ["2020-01-01", "2020-01-11", ""])
    kind = KINDS["date"]
    for values in (whole, texts, whole.cast(pl.Datetime("ns"))):
        np.testing.assert_allclose(kind.fit(values, values, "a").encode(values, "a").dense, [[-1, 0], [1, 0], [0, 1]])


def test_categories_are_rare_unknown_or_missing():
    column, found = encoded("categorical", ["m", "f", "m", "f", "once"], new=["f", "m", "new", None, "once", ""])
    assert list(column.vocabulary) == ["f", "m"]
    assert [list(row) for row in sparse(found)] == [[2], [3], [0], [1], [0], [1]]
    assert found.unknown == 2


def test_categories_are_equal_in_all_types_of_numbers():
    column = encoded("categorical", [7, 7, 8, 8])[0]
    for values in (["7", "8"], [7.0, 8.0], [7, 8]):
        assert column.encode(pl.Series("x", values), "b").index.tolist() == [2, 3]


@pytest.mark.parametrize("values", [["a|b", "b", "b|a"], ["a; b", "b", "b;a"], [["a", "b"], ["b"], ["b", "a"]]])
def test_several_values_share_a_weight_of_euclidean_length_1(values):
    column, found = encoded("multi-valued", values)
    assert list(column.vocabulary) == ["a", "b"]
    rows = sparse(found)
    assert sorted(rows[0]) == sorted(rows[2]) == [2, 3]
    assert rows[0][2] == pytest.approx(0.5**0.5)
    assert rows[1] == {3: 1.0}


def test_an_empty_list_is_missing_and_a_repeated_value_counts_once():
    found = encoded("multi-valued", [["a"], ["a", "a"], [], None])[1]
    assert sparse(found) == [{2: 1.0}, {2: 1.0}, {1: 1.0}, {1: 1.0}]


def test_words_of_a_text_are_hashed_alike_in_all_processes_and_rare_ones_left_out():
    texts = ["The Matrix", "the end"] * (LEAST_WORDS // 2) + ["the ring (1999)"]
    column, found = encoded("text", texts)
    assert sparse(found)[0] == {zlib.crc32(b"the") % 4096: 1.0}
    assert column.arrays["idf"][zlib.crc32(b"ring") % 4096] == 0


def test_tf_idf_weights_follow_their_formula():
    texts = ["a b b", "a b", "a b", "a b", "a b", "a", "a", None]
    row = sparse(encoded("text", texts)[1])[0]
    a, b = (zlib.crc32(word) % 4096 for word in (b"a", b"b"))
    weights = np.array([np.log(8 / 8) + 1, 2 * (np.log(8 / 6) + 1)])
    np.testing.assert_allclose([row[a], row[b]], weights / np.linalg.norm(weights), rtol=1e-6)


def test_vectors_are_standardised_by_dimension():
    column, found = encoded("embedding", [[1.0, 5.0], [3.0, 5.0], None])
    np.testing.assert_allclose(found.dense, [[-1, 0, 0], [1, 0, 0], [0, 0, 1]])
    with pytest.raises(DataError, match="vectors of length 3; expected length 2, as in training"):
        column.encode(pl.Series("x", [[1.0, 2.0, 3.0]]), "b")
    with pytest.raises(DataError, match="differ in length or are not finite"):
        encoded("embedding", [[1.0], [1.0, 2.0]])
    with pytest.raises(DataError, match="differ in length or are not finite"):
        encoded("embedding", [[1.0], [float("nan")]])


def test_texts_of_numbers_do_not_depend_on_their_type():
    assert as_texts(pl.Series([1, 2])) == as_texts(pl.Series([1.0, 2.0])) == as_texts(pl.Series(["1", " 2"]))
