"""Rows of token ids, and catalogues of labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.errors import DataError
from songrank.data.preparation.text_rows import LabelNames
from songrank.data.preparation.vocabulary import tokenise
from tests.data.readers.labelled import labels_of
from tests.data.readers.small_texts import few, read, texts_of, vocabulary


def test_texts_and_vocabulary_are_cut_where_the_options_say(tmp_path):
    assert texts_of(read(tmp_path, name="a", max_tokens=3), "train") == ["the cat the", "a dog -", "- - -"]
    assert vocabulary(read(tmp_path, name="b", vocabulary_size=1)) == ["cat"]
    assert texts_of(read(tmp_path, name="c", min_count=2), "train")[1] == "? ? - -"
    assert vocabulary(read(tmp_path, name="d", lowercase=False)) == ["A", "CAT", "The", "cat", "dog", "the"]


@few
@given(st.lists(st.tuples(st.text(max_size=9), st.lists(st.sampled_from("abcd"), max_size=3)), min_size=3, max_size=12))
def test_tokens_lengths_and_labels_say_what_the_rows_say(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    rows.append(("some words", ["a"]))
    train = [{"text": text, "labels": labels} for text, labels in rows]
    dataset = read(folder, train, train[-1:], max_tokens=4)
    part = dataset["train"]
    assert part.tokens.dtype == part.lengths.dtype == part.item.dtype
    words = [tokenise(text)[:4] for text, _ in rows]
    assert part.lengths.tolist() == [len(row) for row in words]
    assert texts_of(dataset, "train") == [" ".join(row + ["-"] * (part.tokens.shape[1] - len(row))) for row in words]
    assert labels_of(dataset, "train") == {n: sorted(set(labels)) for n, (_, labels) in enumerate(rows)}
    assert np.all(part.label.numpy() == 1)


def catalogue(labels, names=None, **more):
    """The ids of the catalogue, and the id that each label got."""
    found = LabelNames()
    codes = [found.code(label, "train.json", line) for line, label in enumerate(labels, 1)]
    ids, number = found.finish(names, **more)
    return list(ids), [ids[int(number[code])] for code in codes]


def test_names_are_sorted_and_keep_their_rows():
    assert catalogue(["tax", "law", "tax"]) == (["law", "tax"], ["tax", "law", "tax"])


def test_numbers_make_a_catalogue_up_to_the_largest():
    assert catalogue([3, 1]) == ([0, 1, 2, 3], [3, 1])
    assert catalogue(["3", "1"], numbers_are_texts=True) == ([0, 1, 2, 3], [3, 1])
    assert catalogue(["3", "1"]) == (["1", "3"], ["3", "1"])


def test_numbers_are_places_in_a_list_of_names():
    assert catalogue([2, 0], ["tax", "sea", "law"]) == (["law", "sea", "tax"], ["law", "tax"])


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        (["a", 1], None, "^train.json, line 2: label is 1, but an earlier one is 'a'"),
        ([0, -1], None, "^train.json, line 2: label is -1"),
        (["a", "b"], ["a"], "^train.json, line 2: label 'b' is not one of the 1 in the list of labels"),
        ([0, 5], ["a"], "^train.json, line 2: label 5 is not one of the 1"),
    ],
)
def test_a_wrong_label_is_named_with_its_first_line(labels, names, message):
    with pytest.raises(DataError, match=message):
        catalogue([*labels, labels[-1]], names)
