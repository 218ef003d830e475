"""``songrank rank``: scores and ranks of documents, from a trained model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from songrank.cli.printing import echo


def rank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run or of a model.")],
    documents: Annotated[Path, typer.Argument(metavar="INPUT", help="Table of documents, or LETOR file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Table .csv or .parquet, or directory of Parquet files.")
    ],
    query_column: Annotated[str | None, typer.Option(help="Column of queries; by default found by its name.")] = None,
    by_rank: Annotated[
        bool, typer.Option("--sorted", help="Sort by query and rank; by default in the order of INPUT.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="CSV: put ' before texts that spreadsheets read as formulas.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
) -> None:
    """Score and rank the documents of each query.

    Rank 1 is best; equal scores keep the order of INPUT. INPUT has the format of the training data. A CSV, TSV or
    Parquet table has the training features by name and a column of queries; other columns are copied to the output. A
    LETOR file has rows such as `0 qid:7 1:0.5 3:2`, whose labels are ignored; the output has the query and the row,
    from 0. Rows of a query need not be adjacent. The data set of RUN is not needed. Under torchrun, the processes
    share the queries.

        songrank rank runs/mq2008-song-0 new.txt -o ranked.csv --sorted
    """
    from songrank.cli.progress import progress_bar
    from songrank.cli.together import together
    from songrank.core.text import counted
    from songrank.io.tables.table_writer import check_escape, check_table_output
    from songrank.serving.open import open_model
    from songrank.serving.rank_file import rank_file

    with together(device) as processes, progress_bar(quiet or not processes.is_first) as progress:
        check_table_output(output, overwrite=overwrite)
        check_escape(output, escape=escape_formulas)
        folder = open_model(run, device, task="search")
        more: dict[str, Any] = {
            "overwrite": overwrite,
            "escape": escape_formulas,
            "progress": progress,
            "processes": processes,
        }
        done = rank_file(folder, documents, output, query_column, by_rank, **more)
    if not quiet and processes.is_first:
        echo(f"{counted(done.queries, 'queries')}; wrote {counted(done.rows, 'ranked documents')} to {output}")
