"""``songrank train``: from a recipe to a model, watched while it happens, stopped and gone on with at any time."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from songrank.cli.training_view import TrainingView, print_results
from songrank.core.errors import UserError


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: a YAML file, or the name of one of `songrank recipes`.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Argument(help="Changes to it: loss=k-song loss.gamma=0.3 seed=1 data=FOLDER")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of the run; runs/RECIPE-LOSS-SEED if not given.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder; needs no recipe.")] = None,
    data: Annotated[Path | None, typer.Option(help="With --resume: where the data set is now.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Start again where a run is there already.")] = False,
    speed: Annotated[str, typer.Option(help="auto, or plain: no CUDA graph, kernels or compiler.")] = "auto",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object an epoch and one at the end.")] = False,
) -> None:
    """Train a model by a recipe, and evaluate it on whole lists.

    The recipe names a prepared data set (`songrank data prepare`), a model, a loss and a schedule; any of its keys can
    be changed on the command line:

        songrank train movielens-1m
        songrank train movielens-1m loss=lambdarank seed=1 data=data/mine
        songrank train my-recipe.yaml fine_tuning.learning_rate=1e-3 -o runs/faster

    Stop it with Ctrl-C or a signal at any time: its state is saved, and `songrank train --resume RUN` goes on exactly
    where it stopped. The best state by validation is what comes out. Exit code 0: done; 1: the loss was no number any
    more; 2: something that was given is wrong; 130, 143: stopped, to be gone on with.
    """
    if speed not in ("auto", "plain"):
        raise UserError(f"speed is {speed!r}; expected auto or plain")
    view = TrainingView(quiet=quiet, as_json=as_json)
    from songrank.io.json_files import plain
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run
    from songrank.training.run_directory import RunDirectory

    more: dict[str, Any] = {"warn": view.warn, "speed": speed, "curves": True}
    more |= {} if quiet and not as_json else {"observe": view.observe, "tick": view.tick}
    if resume is not None:
        extra = recipe or ("-o" if output is not None else "--overwrite" if overwrite else None)
        if extra is not None:
            raise UserError(f"--resume goes on with what {resume} was begun with; leave out {extra}")
        if RunDirectory(resume).notes().get("status") == "finished":
            if not quiet:
                typer.echo(f"{resume} is finished; see `songrank evaluate {resume}`", err=True)
            return
        run = Run.resume(resume, data=data, **more)
    elif data is not None:
        raise UserError(f"--data goes with --resume; say data={data} for a new run")
    elif recipe is None:
        raise UserError("no recipe was named; `songrank recipes` lists those that there are")
    else:
        chosen = load_recipe(recipe, changes or [], view.warn)
        place = output or default_place(recipe, chosen.loss["name"], chosen.seed)
        run = Run.begin(chosen, place, overwrite=overwrite, **more)
    moved = "" if data is None else f" --data {data}"
    view.finish(run, f"songrank train --resume {run.directory.path}{moved}")
    if as_json:
        figures = {split: found.values for split, found in run.results.items()}
        typer.echo(json.dumps(plain({"run": str(run.directory.path), **figures})))
    elif not quiet:
        print_results(run.directory.path, run.results)
        if message := run.trainer.better_before():
            view.warn(message)


def default_place(recipe: str, loss: str, seed: int) -> Path:
    """Where a run goes if nothing is said: ``runs/movielens-1m-song-0``."""
    name = Path(recipe).name.removesuffix(".yaml").removesuffix(".yml")
    return Path("runs") / f"{name}-{loss}-{seed}"
