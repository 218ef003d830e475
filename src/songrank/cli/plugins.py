"""Commands of other packages: each entry point of the group ``songrank.commands`` is a function for typer."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from songrank.cli.help_text import Command
from songrank.core.errors import UserError

GROUP = "songrank.commands"
_ELSEWHERE = {"paper": 'the command paper needs the package songrank_paper: pip install "songrank[paper]"'}


class PluginGroup(TyperGroup):
    """A command group that lists the commands of plug-ins after its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._plugins = {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in self.commands}

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands; groups are last."""
        names = [*super().list_commands(ctx), *self._plugins]
        return sorted(names, key=lambda name: isinstance(self.commands.get(name), TyperGroup))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; plug-ins are imported here."""
        if cmd_name in self._plugins:
            self.commands[cmd_name] = _load(self._plugins.pop(cmd_name))
        elif cmd_name in _ELSEWHERE and cmd_name not in self.commands:
            return _failing(cmd_name, _ELSEWHERE[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command named first in the arguments; suggestions for a mistyped name include plug-ins."""
        if self.get_command(ctx, args[0]) is None:
            for name in tuple(self._plugins):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


def _load(entry: EntryPoint) -> Any:
    try:
        return _command(entry.name, entry.load())
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        return _failing(entry.name, f"plug-in {entry.value} cannot be loaded ({reason})")


def _failing(name: str, message: str) -> Any:
    def fail() -> None:
        raise UserError(message)

    fail.__doc__ = f"Not available: {message}."
    return _command(name, fail, ignore_unknown_options=True, allow_extra_args=True)


def _command(name: str, function: Any, **settings: Any) -> Any:
    app = typer.Typer(add_completion=False)
    app.command(name, cls=Command, context_settings=settings)(function)
    return typer.main.get_command(app)
