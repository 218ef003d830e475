"""Batch ranking of the documents of a file."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.core.processes import ALONE, Processes
from songrank.data.parsers.svmlight import parse_rows
from songrank.data.preparation.feature_store import CHUNK_BYTES, FeatureStore
from songrank.data.readers.feature_table import QUERY_NAMES
from songrank.io.source import Job, Progress, Source
from songrank.io.tables.id_columns import IdColumn
from songrank.io.tables.input_table import InputTable, id_column
from songrank.io.tables.polars_frames import need_column
from songrank.io.tables.table_writer import TableWriter, table_writer, writing
from songrank.io.tables.typed_columns import ID_EXPECTED, read_features, read_ids
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import Written
from songrank.serving.documents import num_raw_features, rank_documents, score_in_parts

_TABLES = (".parquet", ".csv", ".tsv")


def rank_file(
    folder: ModelFolder,
    documents: Path,
    output: Path,
    query_column: str | None = None,
    by_rank: bool = False,
    *,
    overwrite: bool = False,
    escape: bool = False,
    progress: Progress | None = None,
    processes: Processes = ALONE,
) -> Written:
    """Write the documents of each query with score and rank, 1 is best; see ``songrank rank`` for the options.

    ``documents`` is a CSV, TSV or Parquet table with the features of training, or LETOR text. Rows keep their order, or
    are sorted by query and rank. Features and other columns are stored on disk temporarily. Several ``processes``
    share the lists: each reads the file, scores a range of the lists, and writes a range of the rows.
    """
    job = Job(progress)
    with table_writer(output, overwrite=overwrite, processes=processes, escape=escape) as writer:
        with processes.agreed(), writing(output):  # temporary files are on the same disk
            rows = _Documents(folder, writer, documents, query_column, job)
        rows.score(job, processes)
        for frame in rows.frames(by_rank, processes):
            writer.write(frame)
    own = rows.num_queries if processes.is_first else 0
    return Written(own, writer.rows).total(processes)


class _Documents:
    """Documents of a file: features and other columns on disk; queries, scores and ranks in memory."""

    def __init__(
        self, folder: ModelFolder, writer: TableWriter, path: Path, query_column: str | None, job: Job
    ) -> None:
        self.folder, self.writer, self.width = folder, writer, num_raw_features(folder)
        self.features, self._query = FeatureStore(writer.folder), IdColumn()
        self.columns, self.query = ["query", "row"], "query"
        self._parts: list[Path] = []
        names = folder.info["features"].get("names")
        if names is not None:
            self._read_table(path, names, query_column, job)
            return
        if Source(path).file_name.lower().endswith(_TABLES):
            fix = "expected LETOR text with rows such as 0 qid:7 1:0.5 3:2"
            raise DataError("is a table, but the model was trained on numbered features", fix, file=str(path))
        if query_column is not None:
            raise DataError("is not a table", "omit --query-column; LETOR text has qid:", file=str(path))
        self._read_letor(path, job)

    def _read_table(self, path: Path, names: list[str], query_column: str | None, job: Job) -> None:
        table = InputTable(path, job)
        missing = [name for name in names if name not in table.columns]
        if missing:
            listed = ", ".join(map(repr, missing[:12])) + (f" and {len(missing) - 12:,} more" if missing[12:] else "")
            fix = f"expected the {len(names):,} features of training"
            raise DataError(f"has no column {listed}", fix, file=table.name)
        self.columns = others = [name for name in table.columns if name not in names]
        self.query = need_column(query_column or "auto", QUERY_NAMES, others, "query", table.name)
        for name in ("score", "rank"):
            if name in others:
                raise DataError(f"has a column {name!r}, which the output adds", "rename or remove it", file=table.name)
        fix = "expected a finite number, or empty if missing"
        for block in table.blocks([*others, *names]):
            carried = block.frame.select(others)
            self.writer.check(carried.schema)
            self._query.add(block.read(read_ids, self.query, ID_EXPECTED))
            features = np.empty((block.frame.height, len(names)), np.float32)
            for at, name in enumerate(names):
                features[:, at] = block.read(read_features, name, fix)
            self.features.add(features)
            self._carry(carried)

    def _carry(self, columns: pl.DataFrame) -> None:
        self._parts.append(self.writer.folder / f"carried-{len(self._parts)}.parquet")
        columns.write_parquet(self._parts[-1])

    def _read_letor(self, path: Path, job: Job) -> None:
        first = int(self.folder.info["features"].get("first_index", 1))
        last = first + self.width - 1
        for block in Source(path).blocks(job):
            part = parse_rows(block.data, file=block.file, line=block.line, first_index=first, max_index=last)
            if not part.label.shape[0]:
                continue
            if part.query is None:
                raise DataError("lines have no qid:", "write 'qid:ID' after each label", file=block.file)
            whole = part.query.dtype.kind == "i"
            self._query.add(pl.Series(part.query if whole else part.query.tolist(), dtype=None if whole else pl.String))
            begin = self.features.num_rows
            self.features.add_sparse(part.offsets, part.index - first, part.value)
            self._carry(pl.DataFrame({"row": np.arange(begin, self.features.num_rows)}))
        if not self.features.num_rows:
            raise DataError("has no rows", "expected at least one document", file=str(path))

    def score(self, job: Job, processes: Processes) -> None:
        """Score lists in batches, and rank documents within each list."""
        self._number, ids = self._query.finish()
        self._ids, self.num_queries = id_column(ids), len(ids)
        rows, lengths = np.argsort(self._number, kind="stable"), np.bincount(self._number)

        def dense(first: int, last: int) -> Array:
            features = np.zeros((last - first, self.width), np.float32)
            found = self.features.rows(rows[first:last])
            features[:, : found.shape[1]] = found
            return features

        most, total = max(1, CHUNK_BYTES // (4 * self.width)), rows.shape[0]
        self._score = np.empty(total, np.float32)
        report = partial(job.report, "ranking", total=total)
        self._score[rows] = score_in_parts(self.folder, lengths, dense, most, report, processes=processes)
        self._rank, self._best_first = rank_documents(self._score, self._number)

    def frames(self, by_rank: bool, processes: Processes) -> Iterator[pl.DataFrame]:
        """The rows of a process, in input order or sorted by query and rank; sorting loads other columns into memory.

        There is at least one frame.
        """
        parts, (count,) = (pl.read_parquet(part) for part in self._parts), self._rank.shape
        own, begin = range(count)[processes.slice(count)], 0
        for carried in [pl.concat(parts)] if by_rank else parts:
            here = range(max(own.start, begin), min(own.stop, begin + carried.height))
            begin, first = begin + carried.height, begin
            if not here and first:
                continue
            rows = self._best_first[here.start : here.stop] if by_rank else np.arange(here.start, here.stop)
            carried = carried[rows] if by_rank else carried.slice(here.start - first, len(here))
            query = self._ids.gather(self._number[rows]).alias(self.query)
            figures = [pl.Series("score", self._score[rows]), pl.Series("rank", self._rank[rows])]
            yield carried.with_columns(query, *figures).select(*self.columns, "score", "rank")
