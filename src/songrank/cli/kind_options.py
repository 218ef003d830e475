"""Options that depend on the kind of data set, such as ``--no-standardise``, told from those of the command itself."""

from typing import Any

from typer.core import TyperCommand

from songrank.core.errors import DataError
from songrank.data.registry import all_kinds

_PLACES = ("-o", "--output")  # what follows is a folder, even if it is called like a kind


class KindCommand(TyperCommand):
    """A command whose first argument is a kind of data set; that kind's options go to ``context.obj`` as keywords."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take out the kind's options, and leave the rest to the command."""
        own = {"-h", "--help", *(word for option in self.params for word in (*option.opts, *option.secondary_opts))}
        places, kinds = range(len(args)), all_kinds()
        kind = next((kinds[args[at]] for at in places if args[at] in kinds and args[at - 1] not in _PLACES), None)
        ctx.obj, rest = split_options(list(args), own, kind.flags() if kind is not None else {})
        remaining: list[str] = super().parse_args(ctx, rest)
        return remaining


def split_options(words: list[str], own: set[str], flags: dict[str, bool]) -> tuple[dict[str, Any], list[str]]:
    """The kind's options as keywords, and all other words in their order.

    ``own`` are options of the command itself; ``flags`` are those of the kind, and whether they are yes or no. An
    unknown option takes the next word as its value, unless that is an option too: it is rejected by name later.

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
                raise DataError(f"option {start} has no value", f"say {start} VALUE; see `songrank data list NAME`")
        if name in options:
            raise DataError(f"option {start} stands twice", "say it once")
        options[name] = found
    return options, rest
