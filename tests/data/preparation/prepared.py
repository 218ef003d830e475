"""Lists on their way into a data set and out of it again, for tests of list tasks."""

import functools
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import numpy as np
from hypothesis import settings

from songrank.data import prepare
from songrank.io.json_files import read_json
from songrank.io.source import BLOCK_BYTES, Source


def prepare_in(folder, kind, source, *, block_bytes=BLOCK_BYTES, **options):
    """A data set in a new folder of its own below ``folder``, read in blocks of the given size."""
    with patch.object(Source, "blocks", functools.partialmethod(Source.blocks, block_bytes=block_bytes)):
        return prepare(kind, source, Path(mkdtemp(dir=folder)) / "prepared", **options)


def written(dataset, *, without=("made",)):
    """All that was written, for comparing two data sets byte by byte; what it was made from left out."""
    files = {file.name: file.read_bytes() for file in sorted(dataset.path.glob("*.safetensors"))}
    info = read_json(dataset.path / "dataset.json")
    return files, {key: value for key, value in info.items() if key not in without}


def lists_of(dataset, split):
    """Each query's labels and features, by its id, in the order of the split."""
    part, ids = dataset[split], dataset.split_query_ids(split)
    offsets = part.offsets.tolist()
    return {
        query: (part.label[start:stop].tolist(), part.features[start:stop].tolist())
        for query, start, stop in zip(ids, offsets, offsets[1:], strict=False)
    }


def letor_line(label, query, values, first=1):
    """One row of LETOR text, NaN as NULL."""
    features = " ".join(f"{i}:{'NULL' if np.isnan(v) else repr(float(v))}" for i, v in enumerate(values, first))
    return f"{label} qid:{query} {features} # doc\n"


NAN = float("nan")


def some_lists(seed, queries, features=3, missing=0.1, start=0):
    """Rows of each query, by id."""
    generator = np.random.default_rng(seed)
    lists = {}
    for query in range(start, start + queries):
        rows = np.exp(generator.normal(size=(generator.integers(1, 8), features)) * 3).astype(np.float32)
        rows[generator.random(rows.shape) < missing] = NAN
        lists[query] = [(int(generator.integers(0, 3)), row) for row in rows]
    return lists


def text_of(lists):
    return "".join(letor_line(label, query, row) for query, rows in lists.items() for label, row in rows)


few = settings(derandomize=True, max_examples=60, deadline=None)
