"""The root command: options, errors and exit codes that all subcommands share."""

import errno
import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import typer

from songrank import __version__
from songrank.cli.compare import compare
from songrank.cli.data import app as data
from songrank.cli.demo import demo
from songrank.cli.ensemble import ensemble
from songrank.cli.evaluate import evaluate
from songrank.cli.explore import explore
from songrank.cli.export import export
from songrank.cli.help_text import Command
from songrank.cli.label import label
from songrank.cli.leaderboard import leaderboard
from songrank.cli.plugins import PluginGroup
from songrank.cli.printing import echo
from songrank.cli.rank import rank
from songrank.cli.recipes import recipes
from songrank.cli.recommend import recommend
from songrank.cli.report import report
from songrank.cli.signals import known_signals
from songrank.cli.similar import similar
from songrank.cli.train import TrainCommand, train
from songrank.cli.tune import tune
from songrank.core.allocator import keep_freed_memory
from songrank.core.errors import ReportedError, UserError
from songrank.core.launch import is_first, need_one_process
from songrank.io.verification import ALWAYS as VERIFY

_INTERRUPTED = 130

app = typer.Typer(
    name="songrank",
    cls=PluginGroup,
    help="Train ranking models by optimising NDCG directly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    demo,
    recipes,
    train,
    evaluate,
    compare,
    leaderboard,
    ensemble,
    report,
    tune,
    recommend,
    similar,
    explore,
    rank,
    label,
    export,
)
"""All commands, in the order of the help."""
TOGETHER = ("train", "evaluate", "recommend", "rank", "label")
"""Commands that several processes can run together."""
app.add_typer(data, name="data")
for command in COMMANDS:
    app.command(cls=TrainCommand if command is train else Command)(command)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version."),
    verify: bool = typer.Option(
        False, "--verify", help="Verify the checksums of data sets that were verified before and have not changed."
    ),
) -> None:
    if verify:
        os.environ[VERIFY] = "always"  # also for processes that the command starts
    if version:
        echo(__version__)
        raise typer.Exit
    if ctx.invoked_subcommand not in (None, *TOGETHER):
        need_one_process(f"songrank {ctx.invoked_subcommand}", "start it without torchrun", once=True)


def main() -> NoReturn:
    """Run the command; invalid input is reported in one line with exit code 2, an interruption is 130 or 143."""
    for number in known_signals("SIGTERM", "SIGHUP"):
        signal.signal(number, _terminate)
    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals with a limited character set
    try:
        code = app(standalone_mode=False) or 0
        if code == _INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
        sys.exit(code)
    except ReportedError as error:
        sys.exit(error.exit_code)
    except UserError as error:
        echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        echo("stopped; unsaved work is lost", err=True)
        sys.exit(_INTERRUPTED)
    except OSError as error:
        if not _reader_is_gone(error):
            raise
        with suppress(OSError, ValueError):  # such a stream has no file descriptor
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        message = getattr(error, "format_message", None)  # only usage errors of typer have it
        if message is None:
            raise
        if message() and is_first():  # empty if typer has printed the help
            echo(f"error: {message()}", err=True)
        sys.exit(2)


def _reader_is_gone(error: OSError) -> bool:
    """Whether the reader of the output, such as head, has closed it; on Windows this is an invalid argument."""
    return isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Exit through all ``finally`` blocks, so that no partial files remain."""
    sys.exit(128 + number)
