"""From interactions to a catalogue task: relevance, filtering, ordering and splits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.core.pairs import pack
from songrank.data.content import Arrays, Content, label_histogram
from songrank.data.dataset import SPLITS
from songrank.data.preparation.data_notes import REPEATED
from songrank.data.preparation.given_splits import check_given, cut_validation, drop_unknown
from songrank.data.preparation.splits import TEST, TRAIN, VALIDATION, cold_items, split_pairs
from songrank.data.preparation_options import RatingOptions
from songrank.io.source import Job
from songrank.io.tables.id_columns import number_integers


@dataclass
class Interactions:
    """Rows of an interaction log. Without ``label`` all labels are 1, without ``time`` rows are in order."""

    query: Array
    query_ids: Ids
    item: Array
    item_ids: Ids
    label: Array | None = None
    time: Array | None = None
    split: Array | None = None  # splits of the source as 0, 1 or 2
    met: tuple[Array, Array] | None = None  # query and item of rows that are not relevant

    def take(self, rows: Array) -> None:
        """Keep these rows, in this order."""
        self.query, self.item = self.query[rows], self.item[rows]
        self.label = None if self.label is None else self.label[rows]
        self.time = None if self.time is None else self.time[rows]
        self.split = None if self.split is None else self.split[rows]


def to_catalogue(log: Interactions, options: RatingOptions, job: Job, fraction: float = 0.0) -> Content:
    """Filter, order and split interactions; each step reports the number of dropped rows.

    With splits of the source, ``log.split``, steps 3 and 4 look at each split and at training alone, and this
    ``fraction`` of each user's training pairs is for validation.

    1. rows with label 0, or below ``min_rating``, are not relevant;
    2. rows are ordered by query, then time; equal times keep the order of the source;
    3. repeated pairs are reduced according to ``duplicates``;
    4. queries and items with too few interactions are dropped until all have enough;
    5. the last ``drop_last`` pairs of each query are dropped; with splits of the source, held-out pairs that cannot be
       ranked (:func:`~songrank.data.preparation.given_splits.drop_unknown`);
    6. ids without interactions are dropped;
    7. all pairs of a fraction ``cold_items`` of the items are held out;
    8. the other pairs are split.
    """
    job.report("ordering", 0, None)
    if log.split is not None:
        check_given(log.split, fraction)
    _keep_relevant(log, options, job)
    _order(log)
    drop_duplicates(log, options, job)
    _keep_active(log, options, job)
    _drop_last(log, options, job)
    dropped = None if log.split is None else drop_unknown(log)
    _compact(log)
    check_left(log.query.shape[0])
    cold = _take_cold(log, options) if options.cold_items else {}
    counts = np.bincount(log.query, minlength=len(log.query_ids))
    if log.split is None:
        codes = split_pairs(counts, log.time, options, job)
    else:
        codes = cut_validation(log, fraction, options.seed)
    place = _places(log.query, counts, codes)
    label = np.ones(log.query.shape[0], np.float32) if log.label is None or options.labels == "binary" else log.label
    columns = {"item": log.item, "label": label.astype(np.float32, copy=False), "time": log.time, "place": place}
    known = {name: column for name, column in columns.items() if column is not None}
    splits: dict[str, Arrays] = {}
    for number, split in enumerate(SPLITS if codes is not None else ("train",)):
        rows = slice(None) if codes is None else codes == number
        if log.query[rows].shape[0]:
            offsets = _offsets(log.query[rows], len(log.query_ids))
            splits[split] = {"offsets": offsets, **{name: column[rows] for name, column in known.items()}}
    check_train(splits)
    for split, arrays in cold.items():
        if split not in splits:
            raise DataError(f"no pair is left for {split}", "hold out fewer cold items, or choose another split")
        splits[split] |= arrays
    if log.met is not None:
        query, item = log.met
        order = np.argsort(query, kind="stable")
        splits["train"] |= {"met.offsets": _offsets(query, len(log.query_ids)), "met.item": item[order]}
    extra: dict[str, Any] = {"held_out": dropped} if dropped else {}
    if cold:
        extra["cold"] = {split: _cold_counts(arrays) for split, arrays in cold.items()}
    if log.label is not None and options.labels == "binary":
        extra["ratings"] = label_histogram([log.label])
    return Content("recommendation", splits, log.query_ids, log.item_ids, extra)


def _take_cold(log: Interactions, options: RatingOptions) -> dict[str, Arrays]:
    """Take the pairs of cold items out of the log; return them by split, as arrays for ``Content``."""
    codes, found = cold_items(len(log.item_ids), options.cold_items, options.seed)[log.item], {}
    labels = np.ones(codes.shape[0], np.float32) if log.label is None or options.labels == "binary" else log.label
    for code in (VALIDATION, TEST):
        rows = codes == code
        columns = {"cold.item": log.item[rows], "cold.label": labels[rows].astype(np.float32, copy=False)}
        found[SPLITS[code]] = {"cold.offsets": _offsets(log.query[rows], len(log.query_ids)), **columns}
    log.take(codes == TRAIN)
    check_left(log.query.shape[0])
    return found


def _cold_counts(arrays: Arrays) -> dict[str, int]:
    items = np.asarray(arrays["cold.item"])
    return {"items": int(np.unique(items).shape[0]), "pairs": int(items.shape[0])}


def check_train(splits: Mapping[str, object]) -> None:
    """Raise unless pairs are left for training."""
    if "train" not in splits:
        raise DataError("no pair is left for training", "hold out fewer pairs, or choose another split")


def _places(query: Array, counts: Array, codes: Array | None) -> Array | None:
    """Position of each row among those of its query, from 0; None if splits are in order within queries."""
    if codes is None or in_order(query, codes):
        return None
    places: Array = (np.arange(query.shape[0]) - numpy_offsets(counts)[query]).astype(np.int32)
    return places


def in_order(query: Array, codes: Array) -> bool:
    """Whether the splits of each query's rows are in order."""
    return not (codes[1:] < codes[:-1])[query[1:] == query[:-1]].any()


def _keep_relevant(log: Interactions, options: RatingOptions, job: Job) -> None:
    relevant = relevant_rows(log.label, log.query.shape[0], options, job)
    check_relevant(relevant.shape[0], int(np.count_nonzero(relevant)), options)
    if not relevant.all():
        log.met = log.query[~relevant], log.item[~relevant]
        log.take(relevant)


def relevant_rows(label: Array | None, rows: int, options: RatingOptions, job: Job) -> Array:
    """Mask of relevant rows: label above 0 and at least ``min_rating``."""
    if label is None:
        if options.min_rating is not None:
            raise DataError("min_rating needs ratings", "set label_column, or omit min_rating")
        return np.ones(rows, bool)
    relevant: Array = label > 0
    job.count("rows with label 0", int(relevant.shape[0] - np.count_nonzero(relevant)))
    if options.min_rating is not None:
        high = relevant & (label >= options.min_rating)
        job.count("rows below min_rating", int(np.count_nonzero(relevant) - np.count_nonzero(high)))
        relevant = high
    return relevant


def check_relevant(rows: int, relevant: int, options: RatingOptions) -> None:
    """Raise if there are rows but none is relevant."""
    if rows and not relevant:
        least = "above 0" if options.min_rating is None else f"at least {options.min_rating:g}"
        raise DataError(f"no rating is {least}", "check the rating column, or lower min_rating")


def check_left(rows: int) -> None:
    """Raise if no interaction is left."""
    if not rows:
        fix = "check the file, or lower min_interactions, min_per_item or drop_last"
        raise DataError("no interaction is left", fix)


def _order(log: Interactions) -> None:
    steps = np.diff(log.query)
    if (steps >= 0).all() and (log.time is None or not (log.time[1:] < log.time[:-1])[steps == 0].any()):
        return
    keys = {"query": log.query} if log.time is None else {"query": log.query, "time": log.time}
    order = pl.DataFrame(keys).select(pl.arg_sort_by(list(keys), maintain_order=True)).to_series()
    log.take(order.to_numpy())


def drop_duplicates(log: Interactions, options: RatingOptions, job: Job) -> None:
    """Reduce repeated pairs according to ``options.duplicates``; rows are ordered."""
    if options.duplicates == "keep":
        return
    key = pack(log.query.astype(np.int64), log.item, len(log.item_ids))
    key = key if log.split is None else key * len(SPLITS) + log.split
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    by = [key] if options.duplicates != "max" or log.label is None else [log.label, key]
    order = np.lexsort(by)
    ordered = key[order]
    new = ordered[1:] != ordered[:-1]
    if options.duplicates == "error":
        at = order[1:][~new][0]
        pair = f"user {log.query_ids[log.query[at]]!r} and item {log.item_ids[log.item[at]]!r}"
        raise DataError(f"{pair} are repeated", "set duplicates to last, first, max or keep")
    chosen = np.concatenate([[True], new] if options.duplicates == "first" else [new, [True]])
    kept = np.zeros_like(chosen)
    kept[order[chosen]] = True
    _keep(log, kept, REPEATED, job)


def _keep_active(log: Interactions, options: RatingOptions, job: Job) -> None:
    before = -1
    while before != log.query.shape[0]:
        before = log.query.shape[0]
        for name, least in (("queries", options.min_interactions), ("items", options.min_per_item)):
            if least == 1:
                continue
            column = log.query if name == "queries" else log.item
            held_out = np.zeros(column.shape[0], bool) if log.split is None else log.split != TRAIN
            counts = np.bincount(column[~held_out], minlength=int(column.max(initial=0)) + 1)
            if not (kept := held_out | (counts[column] >= least)).all():
                _keep(log, kept, f"rows of {name} with too few interactions", job)


def _drop_last(log: Interactions, options: RatingOptions, job: Job) -> None:
    if options.drop_last:
        ends = _offsets(log.query, len(log.query_ids))[log.query + 1]
        _keep(log, np.arange(log.query.shape[0]) < ends - options.drop_last, "last pairs", job)


def _keep(log: Interactions, kept: Array, others: str, job: Job) -> None:
    """Keep these rows, and count the others."""
    job.count(others, int(kept.shape[0] - np.count_nonzero(kept)))
    log.take(kept)


def _compact(log: Interactions) -> None:
    queries = np.bincount(log.query, minlength=len(log.query_ids)) > 0
    items = np.bincount(log.item, minlength=len(log.item_ids)) > 0
    if log.met is not None:
        kept = queries[log.met[0]] & items[log.met[1]]
        log.met = _renumber(log.met[0][kept], queries), _renumber(log.met[1][kept], items)
    log.query, log.item = _renumber(log.query, queries), _renumber(log.item, items)
    log.query_ids, log.item_ids = log.query_ids.keep(np.flatnonzero(queries)), log.item_ids.keep(np.flatnonzero(items))


def _renumber(column: Array, kept: Array) -> Array:
    """Numbers among the kept ids."""
    return column if kept.all() else (np.cumsum(kept, dtype=np.int32) - 1)[column]


def _offsets(query: Array, num_queries: int) -> Array:
    return numpy_offsets(np.bincount(query, minlength=num_queries))


Ratings = tuple[Array, Array, Array, Array]
"""User, movie (int32), rating (float32) and time (int64) of each row of a rating log."""


def rating_columns(*columns: Any) -> Ratings:
    """Columns in the types of ``Ratings``."""
    user, movie, rating, time = columns or ((), (), (), ())
    ids = np.asarray(user, np.int32), np.asarray(movie, np.int32)
    return *ids, np.asarray(rating, np.float32), np.asarray(time, np.int64)


def rating_rows(rows: Sequence[tuple[int, int, float, int]]) -> Ratings:
    """Rows as columns."""
    return rating_columns(*zip(*rows, strict=True))


def rating_log(blocks: Iterable[Ratings]) -> Interactions:
    """Concatenate blocks into a log, column by column to limit memory."""
    parts: list[list[Array]] = [list(column) for column in zip(*blocks, strict=True)]
    joined = []
    while parts:
        joined.append(np.concatenate(parts.pop(0)))
    user, user_ids = number_integers(joined[0])
    movie, movie_ids = number_integers(joined[1])
    return Interactions(user, user_ids, movie, movie_ids, joined[2], joined[3])
