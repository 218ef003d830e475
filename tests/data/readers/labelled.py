"""What tests of labelling tasks share: splits as plain Python."""

from itertools import pairwise
from pathlib import Path

from hypothesis import settings


def rows_of(offsets, values):
    return [values[a:b].tolist() for a, b in pairwise(offsets.tolist())]


def labels_of(dataset, split):
    """Names or numbers of the labels of each row, as the source knows them, by the row's id."""
    part = dataset[split]
    rows = [dataset.item_ids[row] for row in rows_of(part.offsets, part.item)]
    return dict(zip(dataset.split_query_ids(split), rows, strict=True))


def features_of(dataset, split):
    """Number and value of the features of each row."""
    table = dataset[split].features
    index, value = (rows_of(table.offsets, table[name]) for name in ("index", "value"))
    return [dict(zip(*row, strict=True)) for row in zip(index, value, strict=True)]


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    """A folder with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


few = settings(derandomize=True, max_examples=60, deadline=None)
