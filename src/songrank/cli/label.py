"""``songrank label``: the best labels for texts, from a trained model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from songrank.io.source import Job, Source
    from songrank.serving.model_folder import ModelFolder

_JSON = (".json", ".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv", ".parquet")


class _Rows(NamedTuple):
    """Some rows of the input: what the model reads, and what they call themselves, if they do."""

    queries: Any
    ids: Sequence[str | int] | None


def label(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or of a model.")],
    texts: Annotated[Path, typer.Argument(metavar="INPUT", help="Texts, or bags of words, as in training.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write: .csv or .parquet.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many labels a text.")] = 5,
    text_column: Annotated[str | None, typer.Option(help="Column of texts of a table, if not called text.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a table that is there.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Write the best labels for each text.

    For a model of words, INPUT is JSON lines with `text` (or `title` and `content`), a CSV, TSV or Parquet table with
    a column of texts, or a .txt file with one text a line. For a model of features it is text in the Extreme
    Classification format, whose labels are not looked at. The table has the columns id (where INPUT has ids, else row,
    from 0), label, score and rank. RUN needs no data set.

        songrank label runs/eurlex-4k-text-song-0 new.jsonl -o labels.csv -k 3
    """
    import numpy as np
    import polars as pl

    from songrank.cli.progress import progress_bar
    from songrank.core.devices import choose_device
    from songrank.io.source import Job
    from songrank.io.tables.input_table import id_column
    from songrank.io.tables.table_writer import check_output, table_writer
    from songrank.serving.labels import label as best_labels
    from songrank.serving.model_folder import open_model

    check_output(output, overwrite=overwrite)
    folder = open_model(run, choose_device(device))
    folder.need("labelling")
    assert folder.item_ids is not None
    names, done = id_column(folder.item_ids), 0
    with progress_bar(quiet) as report, table_writer(output, overwrite=overwrite) as writer:
        for queries, ids in _read(folder, texts, text_column, Job(report)):
            begin = 0
            for found in best_labels(folder, queries, k):
                count, wide = found.item.shape
                rows = np.arange(begin, begin + count)
                first = pl.Series("row", rows + done) if ids is None else pl.Series("id", ids[begin : begin + count])
                frame = {
                    first.name: first.gather(np.repeat(rows - begin, wide)),
                    "label": names.gather(found.item.reshape(-1).numpy()),
                    "score": found.score.reshape(-1).numpy(),
                    "rank": np.tile(np.arange(1, wide + 1), count),
                }
                writer.write(pl.DataFrame(frame))
                begin += count
            done += begin
    if not quiet:
        typer.echo(f"{done:,} texts; wrote {writer.rows:,} labels to {output}")


def _read(folder: "ModelFolder", path: Path, text_column: str | None, job: "Job") -> Iterator[_Rows]:
    """Rows of a file of the kind that the model can read."""
    from songrank.core.errors import DataError
    from songrank.io.source import Source

    source = Source(path)
    ending = Path(source.file_name).suffix.lower()
    table = ending in _TABLES and folder.inputs == "words"
    if text_column is not None and not table:
        raise DataError("is no table of texts", "leave out --text-column", file=str(path))
    if folder.inputs == "features":
        if ending != ".txt":
            fix = "expected text in the Extreme Classification format (.txt), as the model reads features"
            raise DataError(f"ends in {ending!r}", fix, file=str(path))
        return _bags(folder, source, job)
    if table:
        return _table(path, text_column, job)
    if ending in _JSON:
        return _json(source, job)
    if ending == ".txt":
        return _lines(source, job)
    fix = f"expected texts in a file that ends in {', '.join((*_JSON, *_TABLES))} or .txt"
    raise DataError(f"ends in {ending!r}", fix, file=str(path))


def _json(source: "Source", job: "Job") -> Iterator[_Rows]:
    from songrank.core.errors import DataError, shown
    from songrank.data.parsers.json_texts import json_lines

    kind: type | None = None
    rows = 0
    for lines in json_lines(source, job):
        names = [line.id() for line in lines]
        for line, name in zip(lines, names, strict=True):
            kind = kind or type(name)
            if type(name) is not kind:
                line.fail(f"its id is {shown(name)}", "give every row an id, or none: all numbers, or all texts")
        rows += len(lines)
        if lines:
            ids = [name for name in names if name is not None]
            yield _Rows([line.text() for line in lines], ids or None)
    if not rows:
        raise DataError("has no rows", "expected at least one JSON object", file=source.name)


def _lines(source: "Source", job: "Job") -> Iterator[_Rows]:
    from songrank.io.source import check_utf8

    for block in source.blocks(job):
        check_utf8(block)
        yield _Rows(block.data.decode().removesuffix("\n").split("\n"), None)


def _table(path: Path, text_column: str | None, job: "Job") -> Iterator[_Rows]:
    import polars as pl

    from songrank.io.source import Job
    from songrank.io.tables.input_table import InputTable, are_whole
    from songrank.io.tables.polars_frames import find_column, need_column
    from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids

    table = InputTable(path, job)
    name = need_column(text_column or "auto", ("text",), table.columns, "text", table.name)
    called = find_column(
        "auto", ("id", "uid"), [column for column in table.columns if column != name], "id", table.name
    )
    if called is None:
        for block in table.blocks([name]):
            yield _Rows(block.read(_read_texts, name, "expected a text"), None)
        return
    again = InputTable(path, Job())  # first all ids, block by block: one that is a text makes all of them texts
    whole = all(are_whole(block.read(read_ids, called, ID_EXPECTED)) for block in again.blocks([called]))
    for block in table.blocks([name, called]):
        ids = block.read(read_ids, called, ID_EXPECTED).cast(pl.Int64 if whole else pl.String)
        yield _Rows(block.read(_read_texts, name, "expected a text"), ids.to_list())


def _read_texts(column: Any) -> list[str] | None:
    """Texts as they are, or None if one is missing or is none."""
    import polars as pl

    if column.null_count() or column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return None
    found: list[str] = column.cast(pl.String).to_list()
    return found


def _bags(folder: "ModelFolder", source: "Source", job: "Job") -> Iterator[_Rows]:
    """Bags of words as dense rows, so many at a time as the model takes at once."""
    import numpy as np

    from songrank.core.errors import DataError
    from songrank.data.parsers.bag_of_words import Header, parse_bags, parse_header
    from songrank.data.preparation.labelled_queries import MAX_LABELS
    from songrank.data.readers.xmc import first_rows
    from songrank.io.source import Block
    from songrank.serving.labels import rows_at_once

    said: Header | None = None
    width, done, step = int(folder.info["features"]["count"]), 0, rows_at_once(folder)
    for block in source.blocks(job):
        if said is None:
            line, _, data = block.data.partition(b"\n")
            said, block = parse_header(line, source.name), Block(data, 2, source.name)
            if said.features != width:
                what = f"the first line says {said.features:,} features"
                raise DataError(what, f"expected {width:,}, as in training", file=source.name, line=1)
        block = first_rows(block, said.rows - done, said.rows)
        if not block.data:
            continue
        bags = parse_bags(block, Header(said.rows, said.features, MAX_LABELS))
        ends = np.concatenate([[0], np.cumsum(bags.feature_counts)])
        rows = bags.feature_counts.shape[0]
        for first in range(0, rows, step):
            last = min(rows, first + step)
            dense = np.zeros((last - first, width), np.float32)
            row = np.repeat(np.arange(last - first), bags.feature_counts[first:last])
            part = slice(ends[first], ends[last])
            dense[row, bags.index[part]] = bags.value[part]
            yield _Rows(dense, None)
        done += rows
    if said is not None and done < said.rows:
        what = f"the first line says {said.rows:,} rows, but there are {done:,}"
        raise DataError(what, "fetch the file again, or mend its first line", file=source.name)
    if not done:
        raise DataError("has no rows", "expected at least one", file=source.name)
