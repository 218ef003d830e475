"""What a preparation hands over, and how it becomes a folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.dataset import FORMAT, FORMS, SPLITS, VERSION
from songrank.data.statistics import statistics
from songrank.io.arrays import Pieces, write_arrays
from songrank.io.files import sha256
from songrank.io.json_files import write_json
from songrank.io.source import Job

_MAX_SOURCES = 64
COLUMNS = {
    "offsets": "row q of the split holds the entries offsets[q] to offsets[q + 1] of the columns below",
    "item": "number of the item of each relevant pair",
    "label": "relevance y of each pair or document; 0 is irrelevant",
    "weight": "weight of each query in training",
    "met.offsets": "row q has the entries met.offsets[q] to met.offsets[q + 1] of met.item",
    "met.item": "items that a query met without their being relevant: label 0, or below min_rating",
    "place": "place of each pair among those of its query in all splits, from 0; where splits are not in order",
    "time": "time of each pair, as the source gives it; dates in microseconds since 1970 (nanoseconds if it has them)",
    "features": "one row of features a document, after the transformation stored here",
    "features.offsets": "row q has the features features.offsets[q] to features.offsets[q + 1]",
    "features.index": "number of the feature, from 0",
    "features.value": "its value",
    "tokens": "numbers of the words of each text, padded at the end with 0",
    "lengths": "how many words of each text are kept",
}


@dataclass
class Content:
    """Everything of a prepared data set, in memory or in pieces.

    Args:
        task: ``"recommendation"``, ``"labelling"`` or ``"search"``.
        splits: arrays of each split by name: ``offsets`` and ``label`` always; ``item`` (and ``time``, ``place``) in
            catalogues; ``features`` in lists; ``weight`` where queries have weights;
            ``features.offsets/index/value`` or ``tokens`` and ``lengths`` for labelling.
        item_ids: of a catalogue.
        query_ids: one for all splits, or one a split.
        extra: more that belongs into ``dataset.json``: ``features``, ``transform``, ``vocabulary``, ``training``,
            ``source``, ``called``.

    """

    task: str
    splits: dict[str, dict[str, Array | Pieces]]
    query_ids: Ids | dict[str, Ids]
    item_ids: Ids | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def shared_queries(self) -> bool:
        """Whether row q is the same query in every split."""
        return isinstance(self.query_ids, Ids)


def write_content(folder: Path, content: Content, *, name: str, options: Mapping[str, Any], job: Job) -> None:
    """Write the arrays, then ``dataset.json`` last: a folder without it is not a data set."""
    from songrank import __version__

    splits = {name: content.splits[name] for name in SPLITS if name in content.splits}
    num_items = len(content.item_ids) if content.item_ids is not None else None
    if not splits:
        raise DataError("no row is left", "a data set needs at least two users, texts or lists")
    overall = statistics(list(splits.values()), num_items, content.shared_queries)
    if overall["queries"] < 2:
        raise DataError("only one query is left", "a data set needs at least two users, texts or lists")
    if overall["pairs"] == 0:
        raise DataError("no label is above 0", "nothing could be learned: check which column holds the labels")
    described: dict[str, Any] = {}
    for split, arrays in splits.items():
        job.report(f"writing {split}", 0, None)
        digest = write_arrays(folder / f"{split}.safetensors", arrays)
        described[split] = statistics([arrays], num_items)
        described[split]["arrays"] = {key: [a.dtype.name, list(a.shape)] for key, a in sorted(arrays.items())}
        described[split]["sha256"] = digest
    ids = content.query_ids if isinstance(content.query_ids, dict) else {"": content.query_ids}
    arrays_of_ids: dict[str, Array | Pieces] = {}
    for split, known in ids.items():
        arrays_of_ids |= known.arrays(f"query.{split}" if split else "query")
    if content.item_ids is not None:
        arrays_of_ids |= content.item_ids.arrays("item")
    digest = write_arrays(folder / "ids.safetensors", arrays_of_ids)
    used = sorted({key for arrays in splits.values() for key in arrays})
    info = {
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
        "made": {
            "songrank": __version__,
            "options": dict(options),
            "sources": _sources(job),
            "left_out": dict(sorted(job.counts.items())),
        },
    }
    write_json(folder / "dataset.json", info)


def _sources(job: Job) -> list[dict[str, str | int]]:
    """What was read, by name; as one entry where there are so many files that no one would look."""
    sources = sorted(job.sources, key=lambda source: str(source["name"]))
    if len(sources) <= _MAX_SOURCES:
        return sources
    digest = sha256("".join(f"{source['sha256']}  {source['name']}\n" for source in sources))
    name = f"{sources[0]['name']} to {sources[-1]['name']}, {len(sources):,} files"
    return [{"name": name, "bytes": sum(int(s["bytes"]) for s in sources), "sha256": digest}]
