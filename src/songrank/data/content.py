"""The result of a preparation, its directory on disk, and the statistics of ``songrank data show``."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.core.feature_rows import FeatureRows
from songrank.core.ids import Ids
from songrank.data.dataset import ENCODER, FORMAT, FORMS, SPLITS, VERSION, features_file
from songrank.data.preparation.data_notes import missing_ids
from songrank.io.arrays import Pieces, write_arrays
from songrank.io.disk_table import DiskColumn
from songrank.io.files import sha256
from songrank.io.json_files import write_json
from songrank.io.source import Job

Arrays = dict[str, Array | Pieces | DiskColumn]
Column = Array | DiskColumn

_MAX_SOURCES = 64
_MAX_BARS = 32
_PIECE = 1 << 20
COLUMNS = {
    "offsets": "row q of the split has the entries offsets[q] to offsets[q + 1] of the columns below",
    "item": "number of the item of each relevant pair",
    "label": "relevance y of each pair or document; 0 is irrelevant",
    "weight": "weight of each query in training",
    "met.offsets": "row q has the entries met.offsets[q] to met.offsets[q + 1] of met.item",
    "met.item": "seen items of a query that are not relevant: label 0, or below min_rating",
    "cold.offsets": "row q has the entries cold.offsets[q] to cold.offsets[q + 1] of cold.item and cold.label",
    "cold.item": "cold items of a query, of which no pair is in training",
    "cold.label": "relevance y of each pair with a cold item",
    "place": "position of each pair among those of its query in all splits, from 0, if splits are not in order",
    "time": "time of each pair, as in the source; dates in microseconds since 1970 (nanoseconds if present)",
    "features": "one row of features per document, after the transformation in dataset.json",
    "features.offsets": "row q has the features features.offsets[q] to features.offsets[q + 1]",
    "features.index": "index of the feature, from 0",
    "features.value": "value of the feature",
    "tokens": "word ids of each text, padded at the end with 0",
    "lengths": "number of words kept per text",
}


@dataclass(frozen=True)
class EntityFeatures:
    """The features of all items or users, and the description and arrays of their encoder."""

    rows: FeatureRows
    columns: list[dict[str, Any]]
    arrays: Mapping[str, Tensor]
    counts: Mapping[str, int]

    def write(self, file: Path) -> dict[str, Any]:
        """Write the arrays, and return the entry of ``dataset.json``."""
        tensors = {**self.rows.tensors(), **{f"{ENCODER}{name}": array for name, array in self.arrays.items()}}
        digest = write_arrays(file, {name: tensor.numpy() for name, tensor in tensors.items()})
        return {"columns": self.columns, "sizes": self.rows.sizes(), **self.counts, "sha256": digest}


@dataclass
class Content:
    """Content of a prepared data set, in memory or in pieces."""

    task: str
    splits: dict[str, Arrays]  # by name of the split and of the array, as in ``COLUMNS``; offsets and label always
    query_ids: Ids | dict[str, Ids]  # for all splits, or of each split
    item_ids: Ids | None = None  # of a catalogue
    extra: dict[str, Any] = field(default_factory=dict)  # further entries of dataset.json: features, transform, …
    features: dict[str, EntityFeatures] = field(default_factory=dict)  # of "item" and "user"

    @property
    def shared_queries(self) -> bool:
        """Whether row q is the same query in every split."""
        return isinstance(self.query_ids, Ids)


def write_content(folder: Path, content: Content, *, name: str, options: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """Write the arrays, and return the content of ``dataset.json`` for :func:`write_description`."""
    from songrank import __version__

    splits = {name: content.splits[name] for name in SPLITS if name in content.splits}
    num_items = len(content.item_ids) if content.item_ids is not None else None
    if not splits:
        raise DataError("no row is left", "a data set needs at least two users, texts or lists")
    overall = statistics(list(splits.values()), num_items, content.shared_queries)
    if overall["queries"] < 2:
        raise DataError("only one query is left", "a data set needs at least two users, texts or lists")
    if overall["pairs"] == 0:
        raise DataError("no label is above 0", "check the label column; training needs a relevant item")
    described: dict[str, Any] = {}
    for split, arrays in splits.items():
        job.report(f"writing {split}", 0, None)
        digest = write_arrays(folder / f"{split}.safetensors", arrays)
        described[split] = statistics([arrays], num_items)
        described[split]["arrays"] = {key: [a.dtype.name, list(a.shape)] for key, a in sorted(arrays.items())}
        described[split]["sha256"] = digest
    ids = {"item": content.item_ids} if content.item_ids is not None else {}
    if isinstance(content.query_ids, dict):
        ids |= {f"query.{split}": known for split, known in content.query_ids.items()}
    else:
        ids["query"] = content.query_ids
    stored: Arrays = {key: array for name, known in ids.items() for key, array in known.arrays(name).items()}
    digest = write_arrays(folder / "ids.safetensors", stored)
    for word, found in content.features.items():
        content.extra[f"{word}_features"] = found.write(folder / features_file(word))
    used = sorted({key for arrays in splits.values() for key in arrays})
    made = {"songrank": __version__, "options": dict(options), "sources": _sources(job)}
    made["left_out"] = dict(sorted(job.counts.items()))
    if content.task == "recommendation" and content.item_ids is not None and isinstance(content.query_ids, Ids):
        missing = missing_ids(content.query_ids, content.item_ids)
        made |= {"missing_ids": missing} if missing else {}
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "task": content.task,
        "form": FORMS[content.task],
        **overall,
        "shared_queries": content.shared_queries,
        "columns": {key: COLUMNS[key] for key in used},
        "splits": described,
        "ids": {"sha256": digest},
        **content.extra,
        "made": made,
    }


def write_description(folder: Path, info: Mapping[str, Any]) -> None:
    """Write ``dataset.json``, after all other files: a directory without it is not a data set."""
    write_json(folder / "dataset.json", info)


def _sources(job: Job) -> list[dict[str, str | int]]:
    """The source files, by name; merged into one entry if there are many."""
    sources = sorted(job.sources, key=lambda source: str(source["name"]))
    if len(sources) <= _MAX_SOURCES:
        return sources
    digest = sha256("".join(f"{source['sha256']}  {source['name']}\n" for source in sources))
    name = f"{sources[0]['name']} to {sources[-1]['name']}, {len(sources):,} files"
    return [{"name": name, "bytes": sum(int(s["bytes"]) for s in sources), "sha256": digest}]


def statistics(
    splits: Sequence[Mapping[str, Array | Pieces | DiskColumn]], num_items: int | None, shared_queries: bool = False
) -> dict[str, Any]:
    """Counts, list lengths, sparsity and label histogram of some splits together."""
    offsets = [np.asarray(arrays["offsets"]) for arrays in splits]
    labels = [y if isinstance(y := arrays["label"], DiskColumn) else np.asarray(y) for arrays in splits]
    relevant = [_relevant(y, begin) for y, begin in zip(labels, offsets, strict=True)]
    per_query: Array = np.sum(relevant, axis=0) if shared_queries else np.concatenate(relevant)
    rows, pairs = int(per_query.shape[0]), int(per_query.sum())
    figures: dict[str, Any] = {"queries": rows, "queries_with_pairs": int(np.count_nonzero(per_query)), "pairs": pairs}
    if num_items is None:
        figures["items"] = sum(int(label.shape[0]) for label in labels)
        figures["list_length"] = _summary(np.concatenate([np.diff(begin) for begin in offsets]))
    elif rows and num_items:
        figures["items"] = num_items
        figures["sparsity"] = max(0.0, 1 - pairs / (rows * num_items))  # repeated pairs count, too
    figures["relevant_per_query"] = _summary(per_query[per_query > 0])
    figures["labels"] = label_histogram(labels)
    return figures


def _relevant(label: Column, offsets: Array) -> Array:
    """Number of labels above 0 per query, in blocks of whole queries."""
    counts, first = np.zeros(offsets.shape[0] - 1, np.int64), 0
    while first < counts.shape[0]:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + _PIECE, side="right")) - 1)
        bounds = offsets[first : last + 1]
        counts[first:last] = np.diff(numpy_offsets(label[int(bounds[0]) : int(bounds[-1])] > 0)[bounds - bounds[0]])
        first = last
    return counts


def _summary(values: Array) -> dict[str, float]:
    if not values.shape[0]:
        return {"min": 0, "mean": 0.0, "median": 0.0, "max": 0}
    mean, median = round(float(values.mean()), 4), float(np.median(values))
    return {"min": int(values.min()), "mean": mean, "median": median, "max": int(values.max())}


def label_histogram(labels: Sequence[Column]) -> dict[str, int]:
    """Count each label; in equal bins if there are many distinct labels."""
    counts: Counter[float] = Counter()
    for piece in _pieces(labels):
        values, numbers = np.unique(piece, return_counts=True)
        counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        if len(counts) > _MAX_BARS:
            return _bins(labels)
    return {f"{np.float32(value)!s}".removesuffix(".0"): count for value, count in sorted(counts.items())}


def _bins(labels: Sequence[Column]) -> dict[str, int]:
    low, high = min(float(x.min()) for x in _pieces(labels)), max(float(x.max()) for x in _pieces(labels))
    edges = np.linspace(low, high, 11)
    total = sum(np.histogram(label, bins=edges)[0] for label in _pieces(labels))
    return {f"{a:g}–{b:g}": int(n) for a, b, n in zip(edges, edges[1:], np.asarray(total), strict=False)}


def _pieces(labels: Sequence[Column]) -> Iterator[Array]:
    for label in labels:
        for at in range(0, label.shape[0], _PIECE):
            yield label[at : at + _PIECE]
