"""``songrank recipes``: the recipes that songrank includes."""

from typing import Annotated

import typer

from songrank.cli.printing import TextTable, echo, wide_console
from songrank.core.errors import UserError


def recipes(name: Annotated[str | None, typer.Argument(help="Recipe to print.")] = None) -> None:
    """List the included recipes, or print one of them.

    A printed recipe is a template for your own:

        songrank recipes movielens-1m > mine.yaml
    """
    from songrank.training.config.yaml_text import read_yaml, shipped_recipes

    shipped = shipped_recipes()
    if name is None:
        table = TextTable("name", "description", box=None, pad_edge=False)
        for key, text in shipped.items():
            table.add_row(key, str(read_yaml(text, key).get("title", "")))
        wide_console().print(table)
        return
    if name not in shipped:
        raise UserError(f"unknown recipe {name!r}; expected one of {', '.join(shipped)}")
    echo(shipped[name], nl=False)
