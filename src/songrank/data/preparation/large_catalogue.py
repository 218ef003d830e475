"""From a sorted log on disk to a catalogue task, in blocks of whole queries: memory stays bounded.

The result is that of :func:`~songrank.data.preparation.interaction_log.to_catalogue`, whose steps are applied to blocks
where a step needs one query at a time, and to counts per query and item where it does not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.data.content import Arrays, Content, label_histogram
from songrank.data.dataset import SPLITS
from songrank.data.preparation.interaction_log import (
    Interactions,
    check_left,
    check_train,
    drop_duplicates,
    in_order,
)
from songrank.data.preparation.log_sorting import BASE_MEMORY, SortedLog, read_blocks
from songrank.data.preparation.nth_value import nth_key, sort_keys
from songrank.data.preparation.splits import (
    TEST,
    VALIDATION,
    check_pairs,
    codes_since,
    leave_last_out,
    random_ends,
    row_bits,
    time_bounds,
)
from songrank.data.preparation_options import RatingOptions
from songrank.io.disk_table import DiskTable
from songrank.io.source import Job

_ROW_BYTES = 200  # memory of a row in a block, with all temporary arrays
_MOST_ROWS = 1 << 23

Rows = dict[str, Array]
Splitter = Callable[["Block", Rows], Array]


@dataclass(frozen=True)
class Block:
    """Whole queries: their range, their rows, and the number of rows of each."""

    query: int
    start: int
    counts: Array

    @property
    def stop(self) -> int:
        """The end of the rows."""
        return self.start + int(self.counts.sum())


class LargeLog:
    """Rows by query in files, and the number of rows per query and per item."""

    def __init__(self, table: DiskTable, queries: int, items: int, job: Job, most_rows: int) -> None:
        self.table, self.job, self.most_rows = table, job, most_rows
        self.counts = {"query": np.zeros(queries, np.int64), "item": np.zeros(items, np.int64)}

    def append(self, rows: Mapping[str, Array]) -> None:
        """Append rows."""
        self.table.append(rows)
        for name, counts in self.counts.items():
            counts += np.bincount(rows[name], minlength=counts.shape[0])

    def blocks(self, what: str) -> Iterator[Block]:
        """Blocks of whole queries; progress is reported as ``what``."""
        counts, first = self.counts["query"].copy(), 0
        offsets = numpy_offsets(counts)
        while first < counts.shape[0]:
            self.job.report(what, int(offsets[first]), int(offsets[-1]))
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + self.most_rows, side="right")) - 1)
            yield Block(first, int(offsets[first]), counts[first:last])
            first = last

    def filter(self, what: str, keep: Callable[[Block, Rows], Array]) -> int:
        """Keep the rows that ``keep`` selects in each block; return the number of others."""
        end, before = 0, self.table.rows
        for block in self.blocks(what):
            rows = self.table.read(block.start, block.stop)
            kept = keep(block, rows)
            if not kept.all():
                for name, counts in self.counts.items():
                    counts -= np.bincount(rows[name][~kept], minlength=counts.shape[0])
                rows = {name: column[kept] for name, column in rows.items()}
            if end < block.start or not kept.all():
                self.table.write(end, rows)
            end += rows["query"].shape[0]
        self.table.truncate(end)
        return before - end


def large_catalogue(log: SortedLog, options: RatingOptions, job: Job, scratch: Path, memory: int) -> Content:
    """Filter and split a sorted log, with working memory for blocks from ``memory`` bytes."""
    most_rows = max(1, min(_MOST_ROWS, (memory - BASE_MEMORY) // _ROW_BYTES))
    rows = _distinct(log, options, job, scratch / "rows", most_rows)
    _keep_active(rows, options, job)
    if options.drop_last:
        job.count("last pairs", rows.filter("dropping last pairs", partial(_not_last, options.drop_last)))
    check_left(rows.table.rows)
    known = {name: counts > 0 for name, counts in rows.counts.items()}
    number = {name: np.cumsum(kept, dtype=np.int32) - 1 for name, kept in known.items()}
    query_ids = log.query_ids.keep(np.flatnonzero(known["query"]))
    item_ids = log.item_ids.keep(np.flatnonzero(known["item"]))
    rows.counts["query"] = rows.counts["query"][known["query"]]

    extra: dict[str, Any] = {}
    if "label" in rows.table.dtypes and options.labels == "binary":
        extra["ratings"] = label_histogram([rows.table.column("label")])
    splits = _split(rows, number, options, job, scratch)
    check_train(splits)
    if log.met is not None:
        splits["train"] |= _met(log.met, known, number, scratch / "met")
        log.met.unlink()
    return Content("recommendation", splits, query_ids, item_ids, extra)


def _distinct(log: SortedLog, options: RatingOptions, job: Job, folder: Path, most_rows: int) -> LargeLog:
    """The rows of the sorted file without repeated pairs, in files by column."""
    rows, done = None, 0
    for columns in _whole_queries(read_blocks(log.rows)):
        if rows is None:
            table = DiskTable(folder, {name: column.dtype for name, column in columns.items()})
            rows = LargeLog(table, len(log.query_ids), len(log.item_ids), job, most_rows)
        label, time = columns.get("label"), columns.get("time")
        block = Interactions(columns["query"], log.query_ids, columns["item"], log.item_ids, label, time)
        done += block.query.shape[0]
        drop_duplicates(block, options, job)
        kept = {"query": block.query, "item": block.item, "label": block.label, "time": block.time}
        rows.append({name: column for name, column in kept.items() if column is not None})
        job.report("removing repeated pairs", done, None)
    assert rows is not None  # a log without relevant rows is rejected before it is sorted
    log.rows.unlink()
    return rows


def _whole_queries(blocks: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows in blocks that end where a query ends."""
    left: Rows = {}
    for block in blocks:
        rows = {name: np.concatenate([left[name], column]) for name, column in block.items()} if left else block
        last = int(np.searchsorted(rows["query"], rows["query"][-1]))  # the first row of a query that may continue
        if last:
            yield {name: column[:last] for name, column in rows.items()}
        left = {name: column[last:] for name, column in rows.items()}
    if left:
        yield left


def _keep_active(rows: LargeLog, options: RatingOptions, job: Job) -> None:
    """Drop queries and items with too few interactions until all have enough."""
    changed = True
    while changed:
        changed = False
        for name, plural, least in (
            ("query", "queries", options.min_interactions),
            ("item", "items", options.min_per_item),
        ):
            enough = rows.counts[name] >= least
            if not rows.counts[name][~enough].any():
                continue
            changed = True
            dropped = rows.filter(f"filtering {plural}", partial(_active, name, enough))
            job.count(f"rows of {plural} with too few interactions", dropped)


def _active(name: str, enough: Array, block: Block, rows: Rows) -> Array:
    kept: Array = enough[rows[name]]
    return kept


def _not_last(number: int, block: Block, rows: Rows) -> Array:
    """Mask of the rows before the last ``number`` of their query."""
    ends = np.repeat(np.cumsum(block.counts), block.counts)
    kept: Array = np.arange(ends.shape[0]) < ends - number
    return kept


def _split(rows: LargeLog, number: Rows, options: RatingOptions, job: Job, folder: Path) -> dict[str, Arrays]:
    """The arrays of each split, in files."""
    dtypes, queries = rows.table.dtypes, rows.counts["query"].shape[0]
    check_pairs(rows.counts["query"], "time" in dtypes, options, job)
    splitter = _splitter(rows, options)
    placed = options.split == "random" and not all(
        in_order(columns["query"], splitter(block, columns))
        for block in rows.blocks("splitting")
        for columns in [rows.table.read(block.start, block.stop)]
    )
    written = {"item": np.int32, "label": np.float32}
    written |= {"time": dtypes["time"]} if "time" in dtypes else {}
    written |= {"place": np.int32} if placed else {}
    tables = [DiskTable(folder / name, written) for name in (SPLITS if splitter is not _all_train else ("train",))]
    counts = np.zeros((len(tables), queries), np.int64)
    for block in rows.blocks("splitting"):
        columns = rows.table.read(block.start, block.stop)
        codes, query = splitter(block, columns), np.repeat(np.arange(block.counts.shape[0]), block.counts)
        columns["item"] = number["item"][columns["item"]]
        if "label" not in columns or options.labels == "binary":
            columns["label"] = np.ones(query.shape[0], np.float32)
        if placed:
            columns["place"] = np.arange(query.shape[0]) - numpy_offsets(block.counts)[query]
        for code, table in enumerate(tables):
            chosen = codes == code
            table.append({name: columns[name][chosen] for name in written})
            found = np.bincount(query[chosen], minlength=block.counts.shape[0])
            counts[code, block.query : block.query + block.counts.shape[0]] = found
    return {
        name: {"offsets": numpy_offsets(counts[code]), **{key: table.column(key) for key in written}}
        for code, (name, table) in enumerate(zip(SPLITS, tables, strict=False))
        if table.rows
    }


def _splitter(rows: LargeLog, options: RatingOptions) -> Splitter:
    """A function from a block to the split of its rows."""
    total = rows.table.rows
    if options.split == "none":
        return _all_train
    if options.split == "leave-last-out":
        return lambda block, _: leave_last_out(block.counts, options.holdout)
    if options.split == "time":
        nth = partial(nth_key, lambda: _time_keys(rows))
        bounds = time_bounds(total, options.validation, options.test, nth)
        return lambda _, columns: codes_since(sort_keys(columns["time"]), bounds)

    def bits() -> Iterator[Array]:
        for start in range(0, total, rows.most_rows):
            yield sort_keys(row_bits(start, min(total, start + rows.most_rows), options.seed))

    ends = random_ends(total, options.validation, options.test)
    last = [nth_key(bits, end - 1)[0] if end else None for end in ends]

    def by_bits(block: Block, _: Rows) -> Array:
        keys = sort_keys(row_bits(block.start, block.stop, options.seed))
        codes = np.zeros(keys.shape[0], np.uint8)
        for code, key in ((VALIDATION, last[1]), (TEST, last[0])):
            if key is not None:
                codes[keys <= key] = code
        return codes

    return by_bits


def _all_train(block: Block, _: Rows) -> Array:
    return np.zeros(block.stop - block.start, np.uint8)


def _time_keys(rows: LargeLog) -> Iterator[Array]:
    column = rows.table.column("time")
    for start in range(0, len(column), rows.most_rows):
        yield sort_keys(column[start : start + rows.most_rows])


def _met(file: Path, known: Rows, number: Rows, folder: Path) -> Arrays:
    """Seen items that are not relevant, by query, in files."""
    table = DiskTable(folder, {"item": np.int32})
    counts = np.zeros(int(np.count_nonzero(known["query"])), np.int64)
    for columns in read_blocks(file):
        kept = known["query"][columns["query"]] & known["item"][columns["item"]]
        table.append({"item": number["item"][columns["item"][kept]]})
        counts += np.bincount(number["query"][columns["query"][kept]], minlength=counts.shape[0])
    return {"met.offsets": numpy_offsets(counts), "met.item": table.column("item")}
