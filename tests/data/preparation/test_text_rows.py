"""Rows of token ids."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
