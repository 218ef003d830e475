"""Words of texts and the vocabulary of the training split."""

import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError
from songrank.data.preparation.vocabulary import tokenise
from songrank.io.files import sha256
from tests.data.readers.small_texts import few, read, texts_of, vocabulary


def test_words_are_numbered_by_how_often_training_texts_have_them(tmp_path):
    dataset = read(tmp_path)
    assert vocabulary(dataset) == ["cat", "the", "a", "dog"]
    assert dataset["train"].tokens.tolist() == [[3, 2, 3, 2], [4, 5, 0, 0], [0, 0, 0, 0]]
    assert dataset["train"].lengths.tolist() == [4, 2, 0]
    assert texts_of(dataset, "test") == ["the ? ? the"]
    assert dataset["test"].lengths.tolist() == [4]
    assert dataset.info["vocabulary"] == {
        "size": 6,
        "padding": 0,
        "unknown": 1,
        "file": "vocabulary.txt",
        "sha256": sha256("cat\nthe\na\ndog\n"),
        "lowercase": True,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x_1-y 3.5%", ["x", "1", "y", "3", "5"]),
        ("Ünïcode СЛОВО 東京2020", ["ünïcode", "слово", "東京2020"]),
        ("cafe\u0301 don't", ["café", "don", "t"]),
        (" \n\t…!?", []),
        ("\ud800lone", ["lone"]),
        ("हिन्दी भाषा, தமிழ்", ["हिन्दी", "भाषा", "தமிழ்"]),
        ("İstanbul IŞIK", ["istanbul", "işik"]),
        ("x\u0323\u0304y z\u0336", ["x\u0323\u0304y", "z\u0336"]),
        ("\u0301alone \u2764\ufe0f", ["alone"]),
    ],
)
def test_a_word_is_a_run_of_letters_and_digits(text, words):
    assert tokenise(text) == words


@few
@given(st.text(max_size=20), st.integers(0, 4))
def test_words_hold_letters_digits_and_marks_alone(text, most):
    words = tokenise(text)
    assert {unicodedata.category(char)[0] for word in words for char in word} <= set("LNM")
    kept = "".join(char for char in "".join(tokenise(text, lowercase=False)) if char.isalnum())
    assert kept == "".join(char for char in unicodedata.normalize("NFC", text) if char.isalnum())
    assert tokenise(text, most=most) == words[:most]


def test_only_so_many_words_are_made_as_are_kept():
    tracemalloc.start()
    assert tokenise("a b " * 500_000, most=3) == ["a", "b", "a"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000  # the text thrice, but no million words


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "one word",
            {"min_count": 3},
            "no word occurs 3 times in the training texts; expected a min_count of at most 1",
        ),
        ("?! …", {}, "training texts have no words; expected letters or digits"),
    ],
)
def test_a_vocabulary_without_words_is_refused(text, options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read(tmp_path, [{"text": text, "labels": ["a"]}], **options)
