"""Texts as tf-idf rows, against plain float64 loops and scikit-learn."""

import math
from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from songrank.core.errors import DataError
from songrank.data import open_dataset, prepare
from songrank.data.adapters.label_sets import read_label_sets
from songrank.data.preparation.tf_idf import TfIdf, terms_of
from songrank.data.preparation.vocabulary import tokenise
from songrank.data.readers.label_table import LabelledRows

TEXTS = ["tax on wine", "Wine and beer, wine!", "law of the sea", "sea and ship", "", "the tax law"] * 3
LABELS = [["a", "b"], ["b"], ["c"], ["c"], ["a"], ["a"]] * 3


def prepared(place, texts=TEXTS, **options):
    labels, ids = read_label_sets(LABELS, len(texts))
    options = {"features": "tf-idf", "validation": 0.2, "test": 0, **options}
    return prepare("xmc-text", LabelledRows(labels, ids, texts=texts), place, overwrite=True, **options)


def by_hand(text, train, ngrams):
    """The weights of the terms of a text."""

    def terms(given):
        words = tokenise(given)
        return [" ".join(words[at : at + n]) for n in range(1, ngrams + 1) for at in range(len(words) - n + 1)]

    documents = Counter(term for given in train for term in set(terms(given)))
    counts = Counter(term for term in terms(text) if term in documents)
    idf = {term: math.log((1 + len(train)) / (1 + documents[term])) + 1 for term in counts}
    weights = {term: math.log(1 + count) * idf[term] for term, count in counts.items()}
    norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
    return {term: weight / norm for term, weight in weights.items()}


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_rows_are_the_formula_on_training_statistics(tmp_path, ngrams):
    dataset = prepared(tmp_path / "data", ngrams=ngrams)
    train = [TEXTS[row] for row in dataset.split_query_ids("train")]
    terms = [line.split("\t")[0] for line in (tmp_path / "data" / "vocabulary.txt").read_text().splitlines()]
    assert dataset["train"].num_features == len(terms) == dataset.info["vocabulary"]["size"]
    for name in ("train", "validation"):
        table = dataset[name].features
        for row, query in enumerate(dataset.split_query_ids(name)):
            entries = slice(int(table.offsets[row]), int(table.offsets[row + 1]))
            found = dict(
                zip((terms[n] for n in table["index"][entries]), table["value"][entries].tolist(), strict=True)
            )
            assert found == pytest.approx(by_hand(TEXTS[query], train, ngrams), abs=1e-6)


def test_weights_agree_with_scikit_learn(tmp_path):
    texts = ["tax wine", "wine beer", "law sea", "sea ship", "tax law", "beer ship"] * 3
    table = prepared(tmp_path / "data", texts, validation=0)["train"].features
    reference = TfidfVectorizer().fit(texts)
    terms = [line.split("\t")[0] for line in (tmp_path / "data" / "vocabulary.txt").read_text().splitlines()]
    expected = reference.transform(texts).toarray()[:, [reference.vocabulary_[term] for term in terms]]
    np.testing.assert_allclose(table.dense(range(18), len(terms)), expected, atol=1e-6)


def test_new_texts_get_the_bits_of_the_prepared_data_set(tmp_path):
    dataset = prepared(tmp_path / "data", ngrams=2)
    lines = (tmp_path / "data" / "vocabulary.txt").read_text().splitlines()
    documents = {term: int(count) for term, count in (line.split("\t") for line in lines)}
    fitted = TfIdf.described(documents, dataset.info["vocabulary"])
    rows = fitted.transform([TEXTS[row] for row in dataset.split_query_ids("validation")])
    table = dataset["validation"].features
    assert rows.lengths.tolist() == table.lengths.tolist()
    assert rows.index.tolist() == table["index"].tolist()
    assert rows.value.tolist() == table["value"].tolist()


def test_held_out_texts_change_nothing_in_training(tmp_path):
    held = list(prepared(tmp_path / "one").split_query_ids("validation"))
    other = [f"unheard {text} of" if row in held else text for row, text in enumerate(TEXTS)]
    prepared(tmp_path / "two", other)
    for name in ("train.safetensors", "vocabulary.txt"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    changed = (open_dataset(tmp_path / name)["validation"].features["value"] for name in ("one", "two"))
    assert not np.array_equal(*changed)


def test_options_limit_the_terms(tmp_path):
    def terms(**options):
        prepared(tmp_path / "data", validation=0, **options)
        lines = (tmp_path / "data" / "vocabulary.txt").read_text().splitlines()
        return dict(line.split("\t") for line in lines)

    assert terms()["wine"] == "6"  # texts, not occurrences
    assert set(terms(vocabulary_size=4)) < set(terms())
    assert set(terms(min_count=6)) == {"and", "law", "sea", "tax", "the", "wine"}
    assert "wine" in terms(lowercase=False)
    assert "beer" not in terms(max_tokens=2)
    long = ["word " * 600 + "last"] * 18
    prepared(tmp_path / "data", long)
    assert "last" in (tmp_path / "data" / "vocabulary.txt").read_text()


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(
        DataError, match="no word occurs 9 times in the training texts; expected a min_count of at most"
    ):
        prepared(tmp_path / "data", min_count=9)
    with pytest.raises(DataError, match="features tf-idf with ngrams"):
        prepared(tmp_path / "data", features="tokens", ngrams=2)
    with pytest.raises(DataError, match="text 1 .from 0. is of type int; expected strings"):
        TfIdf({"wine": 1}, texts=1).transform(["wine", 3])


def test_terms_of_short_texts():
    assert terms_of("One", ngrams=3) == ["one"]
    assert terms_of("a b c d", ngrams=3, most=3) == ["a", "b", "c", "a b", "b c", "a b c"]
