"""``songrank similar``: the most similar items or users, from a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from songrank.cli.printing import echo
from songrank.core.errors import UserError


def similar(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run or of a model.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Output table: .csv or .parquet.")],
    items: Annotated[
        str, typer.Argument(metavar="[INPUT]", help="CSV, TSV or Parquet file of items or users; all: all of training.")
    ] = "all",
    k: Annotated[int, typer.Option("-k", min=1, help="Number of similar items per item.")] = 10,
    users: Annotated[bool, typer.Option("--users", help="Similar users instead of items.")] = False,
    column: Annotated[str | None, typer.Option(help="Column of ids in INPUT; by default found by its name.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="Table of item ids and titles; the output gets both titles.")
    ] = None,
    item_column: Annotated[str | None, typer.Option(help="Column of items in --names.")] = None,
    name_column: Annotated[str | None, typer.Option(help="Column of names in --names.")] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="CSV: put ' before texts that spreadsheets read as formulas.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
) -> None:
    """Write the most similar items of each item, or with --users the most similar users of each user.

    The output has a column of items with the name of the training data, then similar_ITEM, score and rank (from 1).
    The score is the cosine of the vectors of the model, the weight of EASE, or a weighted sum for a blend. Scores of
    different models are not comparable. The data set of RUN is not needed.

        songrank similar runs/movielens-1m-song-0 -k 5 -o similar.csv
        songrank similar runs/movielens-1m-song-0 some-movies.csv --names movies.csv -o similar.csv
    """
    from songrank.cli.progress import progress_bar
    from songrank.core.text import counted
    from songrank.io.tables.table_writer import check_escape, check_table_output
    from songrank.serving.open import open_model
    from songrank.serving.similar_file import similar_file

    if items == "all" and column is not None:
        raise UserError("--column needs INPUT, a file of items or users")
    if names is None and (item_column or name_column):
        raise UserError("--item-column and --name-column need --names")
    if users and names is not None:
        raise UserError("--names has titles of items; leave it out with --users")
    with progress_bar(quiet) as progress:
        check_table_output(output, overwrite=overwrite)
        check_escape(output, escape=escape_formulas)
        done = similar_file(
            open_model(run, device, task="recommendation"),
            output,
            None if items == "all" else Path(items),
            k,
            users=users,
            column=column,
            names=names,
            item_column=item_column,
            name_column=name_column,
            overwrite=overwrite,
            escape=escape_formulas,
            progress=progress,
            warn=lambda message: echo(f"warning: {message}", err=True),
        )
    if not quiet:
        what = "users" if users else "items"
        echo(f"{counted(done.queries, what)}; wrote {counted(done.rows, 'rows')} to {output}")
