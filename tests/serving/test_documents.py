"""New documents are read as those of training were, and get the scores that the prepared data set gives."""

import random

import numpy as np
import pytest
import torch

from songrank import models
from songrank.core.errors import DataError
from songrank.data import prepare
from songrank.serving import open_model, score_documents
from songrank.training.trained_model import model_sizes, write_model

OPTIONS = {
    "plain": {},
    "transformed": {"standardise": True, "log_features": "auto", "missing": "mean"},
    "flags": {"standardise": True, "missing": "mean", "missing_flags": True},
    "z": {"within_query": "z"},
    "z-rank, flags": {"within_query": "z-rank", "standardise": True, "missing_flags": True},
    "z-rank": {"within_query": "z-rank", "standardise": True, "missing": "min"},
}
NAMES = ["price", "clicks", "age"]


def lists():
    rng = random.Random(4)
    rows = []
    for query in range(15):
        for _ in range(rng.randint(1, 9)):
            age = None if rng.random() < 0.2 else rng.gauss(0, 3)
            rows.append(
                {
                    "qid": query,
                    "label": rng.randint(0, 2),
                    "price": rng.random(),
                    "clicks": 10 ** rng.uniform(0, 4),
                    "age": age,
                }
            )
    return rows


@pytest.fixture(scope="module", params=[(how, name) for how in OPTIONS for name in ("mlp", "context-aware")], ids=str)
def made(request, tmp_path_factory):
    """A model, and the data set that it was made for, whose training split holds every list."""
    how, name = request.param
    place = tmp_path_factory.mktemp("documents")
    table = {key: [row[key] for row in lists()] for key in lists()[0]}
    dataset = prepare("feature-table", table, place / "data", split="random", validation=0, test=0, **OPTIONS[how])
    section = {"mlp": {"hidden": [5]}, "context-aware": {"dim": 4, "heads": 2, "blocks": 1, "feed_forward": 4}}[name]
    torch.manual_seed(0)
    write_model(
        place / "model", models.create(name, **section, **model_sizes(dataset)), {"name": name, **section}, dataset
    )
    return open_model(place / "model"), dataset


def raw():
    rows = lists()
    features = np.array([[np.nan if row[name] is None else row[name] for name in NAMES] for row in rows])
    return features, np.bincount([row["qid"] for row in rows])


def prepared_scores(folder, dataset):
    """List by list, from the features that were prepared for training."""
    split = dataset["train"]
    found = []
    with torch.no_grad():
        for start, end in zip(split.offsets[:-1].tolist(), split.offsets[1:].tolist(), strict=True):
            features = split.features[start:end].float().unsqueeze(0)
            found += folder.model(features, torch.ones(1, end - start, dtype=torch.bool))[0].tolist()
    return np.array(found)


def test_as_the_prepared_data_set_has_it(made):
    features, lengths = raw()
    assert score_documents(made[0], features, lengths) == pytest.approx(prepared_scores(*made), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("values", "pairs"), [(1, 2**24), (2**24, 1), (60, 50)])
def test_how_many_lists_are_held_at_once_changes_nothing(made, monkeypatch, values, pairs):
    features, lengths = raw()
    whole = score_documents(made[0], features, lengths)
    monkeypatch.setattr("songrank.models.document_lists._VALUES", values)
    monkeypatch.setattr("songrank.models.document_lists._PAIRS", pairs)
    assert score_documents(made[0], features, lengths) == pytest.approx(whole, rel=1e-5, abs=1e-6)


def test_one_list_needs_no_lengths(made):
    features, lengths = raw()
    first = int(lengths[0])
    alone = score_documents(made[0], features[:first])
    assert alone == pytest.approx(score_documents(made[0], features, lengths)[:first], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("features", "lengths", "message"),
    [
        (np.zeros((2, 4)), None, r"features have shape \[2, 4\]; expected \[documents, 3\], as in training"),
        (np.zeros(3), None, r"features have shape \[3\]"),
        (np.full((2, 3), "x"), None, "features have dtype"),
        (np.zeros((2, 3)), [1], "lengths sum to 1, but there are 2 documents"),
        (np.zeros((2, 3)), [2, 0], "expected one length of at least 1 per list"),
        (np.zeros((2, 3)), [[2]], "expected one length of at least 1 per list"),
    ],
)
def test_what_is_wrong_is_one_line(made, features, lengths, message):
    with pytest.raises(DataError, match=message):
        score_documents(made[0], features, lengths)


def test_no_list_has_no_scores(made):
    assert score_documents(made[0], np.zeros((0, 3)), []).shape == (0,)


def test_synthetic_documents_are_read_as_they_are(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "data", task="search", queries=20, features=4)
    model = models.create("mlp", hidden=(3,), **model_sizes(dataset))
    write_model(tmp_path / "model", model, {"name": "mlp", "hidden": [3]}, dataset)
    folder, split = open_model(tmp_path / "model"), dataset["train"]
    found = score_documents(folder, split.features.numpy(), split.lengths.numpy())
    assert found == pytest.approx(prepared_scores(folder, dataset), rel=1e-4, abs=1e-5)
