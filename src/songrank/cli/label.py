"""``songrank label``: the top labels of texts, from a trained model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from songrank.cli.printing import echo
from songrank.core.errors import UserError


def label(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run or of a model.")],
    texts: Annotated[Path, typer.Argument(metavar="INPUT", help="File of texts or of features, as in training.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Table .csv or .parquet, or directory of Parquet files.")
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of labels per text.")] = 5,
    text_column: Annotated[str | None, typer.Option(help="Column of texts in a table; `text` by default.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="Table of label ids and names; the output gets a column of titles.")
    ] = None,
    name_column: Annotated[str | None, typer.Option(help="Column of names in --names.")] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="CSV: put ' before texts that spreadsheets read as formulas.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
) -> None:
    """Write the top labels of each text.

    For a model of words, INPUT is JSON lines with `text` (or `title` and `content`), a CSV, TSV or Parquet table with
    a column of texts, or a .txt file with one text per line. For a model of features, it has the format of the
    training data: a .txt file in the Extreme Classification format, an .arff file with the attributes of training, or
    a CSV, TSV or Parquet table with its columns; labels are ignored. The output has the columns id (or row, from 0, if
    INPUT has no ids), label, score and rank. The data set of RUN is not needed. Under torchrun, the processes share
    the texts.

        songrank label runs/eurlex-4k-text-song-0 new.jsonl -o labels.csv -k 3
        songrank label runs/eurlex-4k-text-song-0 new.jsonl --names labels-en.csv -o labels.csv
    """
    from songrank.cli.progress import progress_bar
    from songrank.cli.together import together
    from songrank.core.text import counted
    from songrank.io.tables.table_writer import check_escape, check_table_output
    from songrank.serving.label_file import label_file
    from songrank.serving.open import open_model

    if names is None and name_column:
        raise UserError("--name-column needs --names")
    with together(device) as processes, progress_bar(quiet or not processes.is_first) as progress:
        check_table_output(output, overwrite=overwrite)
        check_escape(output, escape=escape_formulas)
        folder = open_model(run, device, task="labelling")
        more: dict[str, Any] = {
            "names": names,
            "name_column": name_column,
            "warn": lambda message: echo(f"warning: {message}", err=True) if processes.is_first else None,
            "overwrite": overwrite,
            "escape": escape_formulas,
            "progress": progress,
            "processes": processes,
        }
        done = label_file(folder, texts, output, k, text_column=text_column, **more)
    if not quiet and processes.is_first:
        echo(f"{counted(done.queries, 'texts')}; wrote {counted(done.rows, 'labels')} to {output}")
