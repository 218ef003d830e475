"""A new command is a function in a file of its own and one entry of COMMANDS: nothing else knows it."""

from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from songrank.cli.main import COMMANDS
from songrank.cli.main import app as songrank
from songrank.core.errors import UserError


def describe(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    loud: Annotated[bool, typer.Option("--loud", help="In capitals.")] = False,
) -> None:
    """Print the name of a run."""
    if not run.name:
        raise UserError("RUN has no name; expected a run directory")
    typer.echo(run.name.upper() if loud else run.name)


def built(*commands):
    """The command line with these commands, as ``songrank.cli.main`` builds it."""
    app = typer.Typer(context_settings=songrank.info.context_settings)
    for command in commands:
        app.command()(command)
    return app


def test_a_command_is_its_function_and_one_entry_of_the_registry():
    app = built(*COMMANDS, describe)
    done = CliRunner().invoke(app, ["describe", "runs/seed-0", "--loud"])
    assert (done.exit_code, done.output) == (0, "SEED-0\n")
    listed = CliRunner().invoke(app, ["-h"]).output
    assert "describe" in listed
    assert "Print the name of a run." in listed
    assert isinstance(CliRunner().invoke(app, ["describe", ""]).exception, UserError)


def test_all_commands_of_the_registry_are_those_of_the_command_line():
    registered = {info.callback for info in songrank.registered_commands}
    assert registered == set(COMMANDS)


def test_each_command_is_in_the_file_of_its_name():
    for command in COMMANDS:
        assert command.__module__ == f"songrank.cli.{command.__name__}"
