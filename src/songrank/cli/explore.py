"""``songrank explore``: a local page of recommendations."""

from pathlib import Path
from typing import Annotated

import typer

from songrank.cli.printing import echo
from songrank.core.errors import UserError


def explore(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="One or two directories of finished runs or of models.")
    ],
    names: Annotated[
        Path | None, typer.Option(help="Table with a name for each item, such as a title: CSV, TSV or Parquet.")
    ] = None,
    item_column: Annotated[str | None, typer.Option(help="Column of items in --names.")] = None,
    name_column: Annotated[str | None, typer.Option(help="Column of names in --names.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 for a free one.")] = 0,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
) -> None:
    """Serve a page on this machine that shows what a model recommends to a user.

    Look up a user to see the history and the recommendations side by side. Remove or add items of the history to see
    what another history would change. With two models, their recommendations are beside each other. The page is served
    on 127.0.0.1 until Ctrl-C, at an address with a random part; nothing is loaded from elsewhere.

        songrank explore runs/sequences-song-0
        songrank explore runs/sequences-song-0 runs/neumf-song-0 --names movies.csv
    """
    from songrank.serving.explorer import Explorer, ExplorerServer
    from songrank.serving.item_names import read_names
    from songrank.serving.open import open_model

    if len(runs) > 2:
        raise UserError(f"{len(runs)} runs are given; expected one or two")
    if names is None and (item_column or name_column):
        raise UserError("--item-column and --name-column need --names")
    folders = [open_model(run, device, task="recommendation") for run in runs]
    titles = [str(run) for run in runs] if len({run.name for run in runs}) < len(runs) else [run.name for run in runs]
    if len(set(titles)) < len(titles):
        raise UserError(f"{runs[0]} is given twice; expected two different runs")
    named = None
    if names is not None:
        named = [read_names(names, folder, item_column=item_column, name_column=name_column) for folder in folders]
    with ExplorerServer(Explorer(dict(zip(titles, folders, strict=True)), named), port) as server:
        echo(f"{server.url}\npress Ctrl-C to stop")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            echo("stopped")
