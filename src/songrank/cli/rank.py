"""``songrank rank``: scores and ranks for documents, from a trained model."""

from pathlib import Path
from typing import Annotated

import typer


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
    from songrank.io.tables.table_writer import check_output
    from songrank.serving.open import open_model
    from songrank.serving.rank_file import rank_file

    with progress_bar(quiet) as progress:
        check_output(output, overwrite=overwrite)
        folder = open_model(run, device, task="search")
        done = rank_file(folder, documents, output, query_column, by_rank, overwrite=overwrite, progress=progress)
    if not quiet:
        typer.echo(f"{done.queries:,} queries; wrote {done.rows:,} ranked documents to {output}")
