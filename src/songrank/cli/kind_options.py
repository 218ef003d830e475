"""Options that depend on the kind of data set, such as ``--no-standardise``, separated from those of the command."""

from typing import Any

import typer
from typer.core import TyperCommand

from songrank.core.errors import DataError
from songrank.data.registry import all_kinds

_PLACES = ("-o", "--output")  # the next word is a directory, even if it has the name of a kind


class KindCommand(TyperCommand):
    """A command whose first argument is a kind of data set; the kind's options go to ``context.obj`` as keywords."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Extract the kind's options and parse the rest as usual."""
        own = {"-h", "--help", *(word for option in self.params for word in (*option.opts, *option.secondary_opts))}
        places, kinds = range(len(args)), all_kinds()
        kind = next((kinds[args[at]] for at in places if args[at] in kinds and args[at - 1] not in _PLACES), None)
        ctx.obj, rest = split_options(list(args), own, kind.flags() if kind is not None else {})
        if kind is not None:
            ctx.obj = kind.current_names(ctx.obj, lambda hint: typer.echo(f"warning: {hint}", err=True))
        remaining: list[str] = super().parse_args(ctx, rest)
        return remaining


def split_options(words: list[str], own: set[str], flags: dict[str, bool]) -> tuple[dict[str, Any], list[str]]:
    """Split a command line into the kind's options, as keywords, and all other words.

    ``own`` are options of the command; ``flags`` are options of the kind, and whether each is boolean. An unknown
    option takes the next word as its value, unless that is an option too; it is rejected by name later.

    >>> kind = {"fold": False, "standardise": True}
    >>> split_options(["letor", "--fold", "2", "a.zip", "--no-standardise"], set(), kind)
    ({'fold': '2', 'standardise': False}, ['letor', 'a.zip'])
    """
    options: dict[str, Any] = {}
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            return options, [*rest, word, *waiting]
        start, equals, value = word.partition("=")
        if not start.startswith("--") or len(start) == 2 or start in own:
            rest.append(word)
            continue
        name = start[2:].replace("-", "_")
        positive = name.removeprefix("no_")
        found: Any = value
        if not equals and flags.get(positive) and positive != name:
            name, found = positive, False
        elif not equals and flags.get(name):
            found = True
        elif not equals:
            found = next(waiting, "")
            if not found or found.startswith("--"):
                raise DataError(f"option {start} has no value", f"pass {start} VALUE; see `songrank data list NAME`")
        if name in options:
            raise DataError(f"option {start} is repeated", "pass it once")
        options[name] = found
    return options, rest
