"""Helpers that tests of several modules share."""

import gzip
import json

from hypothesis import settings

from songrank.data import prepare
from tests.data.readers.labelled import write_files

few = settings(derandomize=True, max_examples=60, deadline=None)

TRAIN = [
    {"text": "The cat, the CAT!", "labels": ["pets", "cats"]},
    {"text": "A dog", "labels": ["pets"]},
    {"text": "", "labels": []},
]

TEST = [{"text": "the bird and the dog and more", "labels": ["birds"]}]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(folder, train_rows=TRAIN, test_rows=TEST, name="set", **options):
    source = write_files(folder / f"{name}-source", {"train.jsonl": lines(train_rows), "test.jsonl": lines(test_rows)})
    return prepare("xmc-text", source, folder / name, **options)


def vocabulary(dataset):
    return (dataset.path / "vocabulary.txt").read_text(encoding="utf-8").splitlines()


def texts_of(dataset, split):
    """The words of each row, as the model sees them."""
    known = {0: "-", 1: "?", **dict(enumerate(vocabulary(dataset), 2))}
    return [" ".join(known[token] for token in row) for row in dataset[split].tokens.tolist()]


PUBLISHED = [
    {"uid": "B7", "title": "Zoo", "content": "of animals", "target_ind": [2, 0], "target_rel": [0.5, 1.0]},
    {"uid": "A1", "title": "Ant", "content": "", "target_ind": [1]},
    {"uid": "C0", "title": "None", "content": None, "target_ind": [2, 1], "target_rel": [0, 1]},
]

PUBLISHED_FILES = {
    "trn.json.gz": gzip.compress(lines(PUBLISHED).encode()),
    "tst.json.gz": gzip.compress(lines([{"uid": "A1", "title": "", "target_ind": [0]}]).encode()),
    "filter_labels_test.txt": "0 0\n",
}

LINES = {
    "train_texts.txt": "A cat\n\nthe dog\n",
    "train_labels.txt": "pets cats\nnothing\n\n",
    "test_texts.txt": "a bird",
    "test_labels.txt": "birds\n",
}
