"""``songrank recipes``: what comes with songrank, to train by or to start from."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from songrank.core.errors import UserError


def recipes(name: Annotated[str | None, typer.Argument(help="Print this recipe.")] = None) -> None:
    """List the recipes that come with songrank, or print one as a start for your own.

    songrank recipes movielens-1m > mine.yaml
    """
    from songrank.training.config.recipe_files import read_yaml, shipped_recipes

    shipped = shipped_recipes()
    if name is None:
        table = Table("name", "what it is", box=None, pad_edge=False)
        for key, text in shipped.items():
            table.add_row(key, str(read_yaml(text, key).get("title", "")))
        Console().print(table)
        return
    if name not in shipped:
        raise UserError(f"{name}: there is no such recipe; expected one of {', '.join(shipped)}")
    typer.echo(shipped[name], nl=False)
