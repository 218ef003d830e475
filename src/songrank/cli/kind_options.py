"""Options that depend on the kind of data set, for example ``--no-standardise``."""

from collections.abc import Iterable, Sequence
from typing import Any

from songrank.cli.help_text import Command
from songrank.cli.printing import echo
from songrank.core.errors import DataError
from songrank.data.registry import Kind, all_kinds

_PATHS = ("-o", "--output")  # the next word is a path, even if it equals the name of a kind
_KIND = "songrank.kind"


class KindCommand(Command):
    """A command whose first argument is a kind; the options of that kind go to ``context.obj`` as keywords."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take out the options of the kind; the command parses the rest."""
        own = {"-h", "--help", *(word for option in self.params for word in (*option.opts, *option.secondary_opts))}
        places, kinds = range(len(args)), all_kinds()
        kind = next((kinds[args[at]] for at in places if args[at] in kinds and args[at - 1] not in _PATHS), None)
        ctx.obj, rest = split_options(list(args), own, kind.flags() if kind is not None else {})
        if kind is not None:
            ctx.obj = kind.current_names(ctx.obj, lambda hint: echo(f"warning: {hint}", err=True))
        ctx.meta[_KIND] = kind
        remaining: list[str] = super().parse_args(ctx, rest)
        return remaining

    def panels(self, ctx: Any) -> Iterable[tuple[str, Sequence[Sequence[str]]]]:
        """The options of the kind that was named, or the names of all kinds."""
        kind = ctx.meta.get(_KIND)
        if kind is None:
            return [("Kinds", [(one.name, one.title) for one in all_kinds().values()])]
        about = [("Content", kind.title), ("Source", kind.wants)]
        about.append(("Presets", ", ".join(kind.presets) + f" [default: {kind.default_preset}]"))
        return [(f"Kind {kind.name}", about), (f"Options of {kind.name}", list(_option_rows(kind)))]


def option_names(kind: Kind) -> dict[str, str]:
    """The options of a kind as words of the command line."""
    return {
        name: f"--[no-]{name}".replace("_", "-") if is_flag else f"--{name}".replace("_", "-")
        for name, is_flag in kind.flags().items()
    }


def option_value(value: Any) -> str:
    """A default as the command line has it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _option_rows(kind: Kind) -> Iterable[tuple[str, str, str]]:
    names = option_names(kind)
    for option, value, description in kind.option_table(kind.default_preset):
        yield names[option], option_value(value), description


def split_options(words: list[str], own: set[str], flags: dict[str, bool]) -> tuple[dict[str, Any], list[str]]:
    """The options of the kind as keywords, and all other words in their order.

    ``own`` are options of the command; ``flags`` maps each option of the kind to whether it is a flag. An unknown
    option takes the next word as its value, unless that is an option too: it is rejected by name later.

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
                raise DataError(f"option {start} needs a value", f"pass {start} VALUE; see `songrank data list KIND`")
        if name in options:
            raise DataError(f"option {start} is repeated", "pass it once")
        options[name] = found
    return options, rest
