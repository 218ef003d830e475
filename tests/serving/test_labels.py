"""New texts are read as those of training were, and get the labels that the prepared data set gives."""

import copy
import hashlib
import json
import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse
import torch

from songrank import models
from songrank.core.errors import DataError
from songrank.data import prepare
from songrank.io.json_files import read_json, write_json
from songrank.serving import label, open_model, score_labels
from songrank.training.trained_model import model_sizes, write_model

WORDS = ["Straße", "cat", "Dog", "été", "naïve", "x2", "tree", "house"]


def texts():
    rng = random.Random(3)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 9))) + "." for _ in range(30)]


def make(place, dataset, section):
    torch.manual_seed(0)
    model = models.create(**section, **model_sizes(dataset))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    write_model(place / "model", model, section, dataset)
    return open_model(place / "model")


READERS = (
    {"name": "xml-cnn", "dim": 4, "filters": 3, "windows": [2], "pools": 2, "bottleneck": 4},
    {"name": "text-transformer", "dim": 4, "blocks": 1, "heads": 2, "length": 7},
)


@pytest.fixture(scope="module", params=product([True, False], READERS), ids=lambda p: f"{p[1]['name']}, lower: {p[0]}")
def of_words(request, tmp_path_factory):
    lowercase, section = request.param
    place = tmp_path_factory.mktemp("words")
    rows = [{"text": text, "labels": [f"l{number % 7}"]} for number, text in enumerate(texts())]
    (place / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = prepare(
        "xmc-text", place / "texts.jsonl", place / "data", split="random", validation=0, test=0, lowercase=lowercase
    )
    return make(place, dataset, section), dataset


@pytest.fixture(scope="module", params=["none", "l2", "log-l2", "standardise"])
def of_features(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("features")
    dense = np.random.default_rng(0).poisson(0.4, (30, 9)).astype(np.float32)
    rows = [f"{n % 6} " + " ".join(f"{i}:{v:g}" for i, v in enumerate(row) if v) for n, row in enumerate(dense)]
    (place / "bags.txt").write_text("30 9 6\n" + "\n".join(rows) + "\n")
    dataset = prepare(
        "xmc", place / "bags.txt", place / "data", split="random", validation=0, test=0, scale=request.param
    )
    return make(place, dataset, {"name": "label-mlp", "hidden": [5]}), dataset, dense


def all_scores(folder, queries):
    return torch.cat(list(score_labels(folder, queries)))


def test_words_as_the_prepared_data_set_has_them(of_words):
    folder, dataset = of_words
    with torch.no_grad():
        expected = folder.model.score_all(dataset["train"].tokens.long())
    assert list(dataset.split_query_ids("train")) == list(range(30))
    torch.testing.assert_close(all_scores(folder, texts()), expected)


@pytest.mark.parametrize("hidden", [[], [5]])
def test_tf_idf_weights_as_the_prepared_data_set_has_them(tmp_path, hidden):
    rows = [{"text": text, "labels": [f"l{number % 7}"]} for number, text in enumerate(texts())]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = {"split": "random", "validation": 0, "test": 0, "features": "tf-idf", "ngrams": 2}
    dataset = prepare("xmc-text", tmp_path / "texts.jsonl", tmp_path / "data", **told)
    folder = make(tmp_path, dataset, {"name": "label-mlp", "hidden": hidden})
    table = dataset["train"].features
    with torch.no_grad():
        expected = folder.model.score_all((table["index"], table.offsets, table["value"]))
    assert folder.reads_texts
    torch.testing.assert_close(all_scores(folder, texts()), expected, rtol=0, atol=0)


def test_a_damaged_vocabulary_of_tf_idf_is_one_line(tmp_path):
    rows = [{"text": text, "labels": [f"l{number % 7}"]} for number, text in enumerate(texts())]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = prepare("xmc-text", tmp_path / "texts.jsonl", tmp_path / "data", features="tf-idf")
    folder = make(tmp_path, dataset, {"name": "label-mlp", "hidden": []})
    words = tmp_path / "model" / "vocabulary.txt"
    for changed in (words.read_text().splitlines(keepends=True)[:-1], ["cat\n"], ["cat\t-1\n"] * len(folder.documents)):
        words.write_text("".join(changed))
        info = read_json(tmp_path / "model" / "model.json")
        info["files"]["vocabulary.txt"] = hashlib.sha256(words.read_bytes()).hexdigest()
        write_json(tmp_path / "model" / "model.json", info)
        with pytest.raises(DataError, match="tables are inconsistent with model.json"):
            open_model(tmp_path / "model")


def test_features_as_the_prepared_data_set_has_them(of_features):
    folder, dataset, dense = of_features
    stored, rows = dataset["train"].features, np.zeros_like(dense)
    for row, (start, end) in enumerate(zip(stored.offsets[:-1].tolist(), stored.offsets[1:].tolist(), strict=True)):
        rows[row, stored["index"][start:end].numpy()] = stored["value"][start:end].numpy()
    with torch.no_grad():
        expected = folder.model.score_all(torch.from_numpy(rows))
    torch.testing.assert_close(all_scores(folder, dense), expected)
    torch.testing.assert_close(all_scores(folder, scipy.sparse.csr_matrix(dense)), expected)


@pytest.mark.parametrize("at_once", [1, 10**4, 10**9])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_the_best_labels_are_those_of_a_plain_sort(of_words, monkeypatch, at_once, k):
    folder, _ = of_words
    scores = all_scores(folder, texts()).tolist()
    monkeypatch.setattr("songrank.serving.labels._TEXT_VALUES", at_once)
    found = [row for batch in label(folder, texts(), k) for row in batch.item.tolist()]
    assert found == [sorted(range(7), key=lambda n: (-row[n], n))[:k] for row in scores]


def test_equal_scores_are_in_order_of_number(of_features):
    folder, _, dense = of_features
    folder = replace(folder, model=copy.deepcopy(folder.model))
    for parameter in folder.model.parameters():
        torch.nn.init.zeros_(parameter)
    (batch,) = label(folder, dense, 4)
    assert batch.item.tolist() == [[0, 1, 2, 3]] * len(dense)


def test_a_text_that_is_none_is_named(of_words):
    with pytest.raises(DataError, match=r"text 1 \(from 0\) is of type int; expected strings"):
        list(label(of_words[0], ["cat", 7]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 8)), r"features have shape \[2, 8\]; expected \[texts, 9\], as in training"),
        (np.full((1, 9), np.nan), "a feature is NaN or infinite"),
        (np.full((1, 9), np.inf), "a feature is NaN or infinite"),
    ],
)
def test_features_that_cannot_be_read(of_features, rows, message):
    with pytest.raises(DataError, match=message):
        list(label(of_features[0], rows))


def test_no_text_has_no_labels(of_words):
    assert list(label(of_words[0], [])) == []
