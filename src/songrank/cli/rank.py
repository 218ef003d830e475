"""``songrank rank``: scores and ranks for documents, from a trained model."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import polars as pl

    from songrank.io.source import Job
    from songrank.io.tables.table_writer import TableWriter
    from songrank.serving.model_folder import ModelFolder

_TABLES = (".parquet", ".csv", ".tsv")
_READ_ROWS = 2**18


def rank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or of a model.")],
    documents: Annotated[Path, typer.Argument(metavar="INPUT", help="Table of documents, or LETOR text.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write: .csv or .parquet.")],
    query_column: Annotated[str | None, typer.Option(help="Column of queries, if not found by its name.")] = None,
    by_rank: Annotated[bool, typer.Option("--sorted", help="By query and rank, not in the order of INPUT.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a table that is there.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Score the documents of each query, and rank them: 1 is best, equal scores in the order of INPUT.

    INPUT is like what the model was trained on. A CSV, TSV or Parquet table has the features of training by name and a
    column of queries; its other columns are carried through to the output. LETOR text has rows such as
    `0 qid:7 1:0.5 3:2`, whose labels are not looked at; the output names the query and the row, from 0. Rows of one
    query need not stand together. RUN needs no data set.

        songrank rank runs/mq2008-song-0 new.txt -o ranked.csv --sorted
    """
    from songrank.cli.progress import progress_bar
    from songrank.core.devices import choose_device
    from songrank.io.source import Job
    from songrank.io.tables.table_writer import check_output, table_writer, writing
    from songrank.serving.model_folder import open_model

    check_output(output, overwrite=overwrite)
    folder = open_model(run, choose_device(device))
    folder.need("search")
    with progress_bar(quiet) as report, table_writer(output, overwrite=overwrite) as writer:
        job = Job(report)
        rows = _Documents(folder, writer, query_column)
        with writing(output):  # what is read goes to the same disk
            rows.read(documents, job)
        rows.score(job)
        for frame in rows.frames(by_rank):
            writer.write(frame)
    if not quiet:
        typer.echo(f"{rows.num_queries:,} queries; wrote {writer.rows:,} ranked documents to {output}")


class _Documents:
    """Documents of a file: features and carried columns on disk; queries, scores and ranks in memory.

    Args:
        folder: of the model.
        writer: of the output; its folder is for what does not fit in memory.
        query_column: of a table, None: found by its name.

    """

    def __init__(self, folder: "ModelFolder", writer: "TableWriter", query_column: str | None) -> None:
        from songrank.data.preparation.feature_store import FeatureStore
        from songrank.io.tables.id_columns import IdColumn
        from songrank.serving.documents import num_raw_features

        self.folder, self.writer, self.query_column = folder, writer, query_column
        self.width = num_raw_features(folder)
        self.features, self._query = FeatureStore(writer.folder), IdColumn()
        self.columns, self.query = ["query", "row"], "query"
        self._parts: list[Path] = []
        self.num_queries = 0

    def read(self, path: Path, job: "Job") -> None:
        """Take in a file of the kind that the model was trained on."""
        from songrank.core.errors import DataError
        from songrank.io.source import Source

        names = self.folder.info["features"].get("names")
        if names is not None:
            self._read_table(path, names, job)
        elif Source(path).file_name.lower().endswith(_TABLES):
            fix = "expected LETOR text, rows such as 0 qid:7 1:0.5 3:2"
            raise DataError("is a table, and the model was trained on numbered features", fix, file=str(path))
        else:
            self._read_letor(path, job)

    def _read_table(self, path: Path, names: list[str], job: "Job") -> None:
        import numpy as np

        from songrank.core.errors import DataError
        from songrank.data.readers.feature_table import QUERY_NAMES
        from songrank.io.tables.input_table import InputTable
        from songrank.io.tables.polars_frames import need_column
        from songrank.io.tables.typed_columns import ID_EXPECTED, read_features, read_ids

        table = InputTable(path, job)
        missing = [name for name in names if name not in table.columns]
        if missing:
            listed = ", ".join(map(repr, missing[:12])) + (f" and {len(missing) - 12:,} more" if missing[12:] else "")
            raise DataError(
                f"has no column {listed}", f"expected the {len(names):,} features of training", file=table.name
            )
        others = [name for name in table.columns if name not in names]
        self.query = need_column(self.query_column or "auto", QUERY_NAMES, others, "query", table.name)
        for name in ("score", "rank"):
            if name in others:
                raise DataError(f"has a column {name!r}, as the output has", "rename or remove it", file=table.name)
        self.columns = others
        for block in table.blocks([*others, *names]):
            carried = block.frame.select(others)
            self.writer.check(carried.schema)
            query = block.read(read_ids, self.query, ID_EXPECTED)
            features = np.empty((block.frame.height, len(names)), np.float32)
            for at, name in enumerate(names):
                features[:, at] = block.read(
                    read_features, name, "expected a finite number, or nothing if it is missing"
                )
            self._query.add(query)
            self.features.add(features)
            self._parts.append(self.writer.folder / f"carried-{len(self._parts)}.parquet")
            carried.write_parquet(self._parts[-1])

    def _read_letor(self, path: Path, job: "Job") -> None:
        import polars as pl

        from songrank.core.errors import DataError
        from songrank.data.parsers.svmlight import parse_rows
        from songrank.io.source import Source

        first = int(self.folder.info["features"].get("first_index", 1))
        last = first + self.width - 1
        if self.query_column is not None:
            raise DataError("is no table", "leave out --query-column: LETOR text has qid:", file=str(path))
        for block in Source(path).blocks(job):
            part = parse_rows(block.data, file=block.file, line=block.line, first_index=first, max_index=last)
            if not part.label.shape[0]:
                continue
            if part.query is None:
                raise DataError("its lines have no qid:", "write 'qid:ID' after each label", file=block.file)
            whole = part.query.dtype.kind == "i"
            self._query.add(pl.Series(part.query if whole else part.query.tolist(), dtype=None if whole else pl.String))
            self.features.add_sparse(part.offsets, part.index - first, part.value)
        if not self.features.num_rows:
            raise DataError("has no rows", "expected at least one document", file=str(path))

    def score(self, job: "Job") -> None:
        """Score whole lists, some at a time, and rank within each."""
        import numpy as np

        from songrank.data.preparation.feature_store import CHUNK_BYTES
        from songrank.io.tables.input_table import id_column
        from songrank.serving.documents import score_documents

        self._number, ids = self._query.finish()
        self._ids, self.num_queries = id_column(ids), len(ids)
        rows, lengths = np.argsort(self._number, kind="stable"), np.bincount(self._number)
        ends = np.cumsum(lengths)
        self._score = np.empty(rows.shape[0], np.float32)
        step, first, begin = max(1, CHUNK_BYTES // (4 * self.width)), 0, 0
        while begin < rows.shape[0]:
            last = max(first + 1, int(np.searchsorted(ends, begin + step, side="right")))
            part, end = rows[begin : ends[last - 1]], int(ends[last - 1])
            features = np.zeros((part.shape[0], self.width), np.float32)
            found = self.features.rows(part)
            features[:, : found.shape[1]] = found
            self._score[part] = score_documents(self.folder, features, lengths[first:last])
            first, begin = last, end
            job.report("ranking", begin, rows.shape[0])
        self._best_first = np.lexsort((-self._score, self._number))
        self._rank = np.empty(rows.shape[0], np.int64)
        self._rank[self._best_first] = np.arange(rows.shape[0]) - np.repeat(ends - lengths, lengths) + 1

    def frames(self, by_rank: bool) -> Iterator["pl.DataFrame"]:
        """The output, in the order of the input or by query and rank; the latter holds carried columns in memory."""
        import numpy as np
        import polars as pl

        if by_rank and self._parts:
            carried = pl.concat([pl.read_parquet(part) for part in self._parts])
            yield self._frame(self._best_first, carried[self._best_first])
        elif self._parts:
            begin = 0
            for part in self._parts:
                carried = pl.read_parquet(part)
                yield self._frame(np.arange(begin, begin + carried.height), carried)
                begin += carried.height
        else:
            order = self._best_first if by_rank else np.arange(self._rank.shape[0])
            for begin in range(0, order.shape[0], _READ_ROWS):
                rows = order[begin : begin + _READ_ROWS]
                yield self._frame(rows, pl.DataFrame({"row": rows}))

    def _frame(self, rows: Any, carried: "pl.DataFrame") -> "pl.DataFrame":
        import polars as pl

        query = self._ids.gather(self._number[rows]).alias(self.query)
        figures = [pl.Series("score", self._score[rows]), pl.Series("rank", self._rank[rows])]
        return carried.with_columns(query, *figures).select(*self.columns, "score", "rank")
