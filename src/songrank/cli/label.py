"""``songrank label``: the best labels for texts, from a trained model."""

from pathlib import Path
from typing import Annotated

import typer


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
    from songrank.cli.progress import progress_bar
    from songrank.io.tables.table_writer import check_output
    from songrank.serving.label_file import label_file
    from songrank.serving.open import open_model

    with progress_bar(quiet) as progress:
        check_output(output, overwrite=overwrite)
        folder = open_model(run, device, task="labelling")
        done = label_file(folder, texts, output, k, text_column=text_column, overwrite=overwrite, progress=progress)
    if not quiet:
        typer.echo(f"{done.queries:,} texts; wrote {done.rows:,} labels to {output}")
