"""Lists on their way into a data set and out of it again, for tests of list tasks."""

import functools
import json
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import numpy as np

from songrank.data import prepare
from songrank.io.source import BLOCK_BYTES, Source


def prepare_in(folder, kind, source, *, block_bytes=BLOCK_BYTES, **options):
    """A data set in a new folder of its own below ``folder``, read in blocks of the given size."""
    with patch.object(Source, "blocks", functools.partialmethod(Source.blocks, block_bytes=block_bytes)):
        return prepare(kind, source, Path(mkdtemp(dir=folder)) / "prepared", **options)


def written(dataset, *, without=("made",)):
    """All that was written, for comparing two data sets byte by byte; what it was made from left out."""
    files = {file.name: file.read_bytes() for file in sorted(dataset.path.glob("*.safetensors"))}
    info = json.loads((dataset.path / "dataset.json").read_text())
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
