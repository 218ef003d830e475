"""``songrank demo``: the whole way in about a minute, on data that comes from nothing."""

from pathlib import Path
from typing import Annotated, Any

import typer

from songrank.analysis.finished_runs import FinishedRun, read_run
from songrank.cli.compare import compare
from songrank.cli.training_view import TrainingView
from songrank.metrics.comparison import paired_difference

LOSSES = {"song": "SONG", "softmax": "cross-entropy", "lambdarank": "LambdaRank"}


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for data and runs.")] = Path("songrank-demo"),
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but the result.")] = False,
) -> None:
    """See it work: make synthetic preferences, train one model with three losses, compare them on test.

    Users have planted tastes, and each user's last two items are held out. The same model goes through the same stages
    with SONG, with cross-entropy and with LambdaRank; then each ranks all items that a user has not seen, and the
    held-out item's place is scored by NDCG. Run it again and it goes on where it was stopped.
    """
    from songrank.data import prepare
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run
    from songrank.training.run_directory import RunDirectory

    def say(message: str) -> None:
        if not quiet:
            typer.echo(message, err=True)

    data = output / "data"
    if not (data / "dataset.json").exists():
        say("making 1,000 users, 1,000 items and 40,000 preferences")
        prepare("synthetic", None, data, queries=1_000, items=1_000, pairs=40_000)
    runs = {loss: output / loss for loss in LOSSES}
    for loss, place in runs.items():
        if RunDirectory(place).notes().get("status") == "finished":
            continue
        say(f"training with {LOSSES[loss]}")
        view = TrainingView(quiet=quiet, as_json=False)
        more: dict[str, Any] = {"observe": view.observe, "tick": view.tick, "warn": view.warn, "curves": True}
        if (place / "config.yaml").exists():
            run = Run.resume(place, **more)
        else:
            run = Run.begin(load_recipe("demo", [f"data={data}", f"loss={loss}"]), place, **more)
        view.finish(run, f"songrank demo -o {output}")
    compare(list(runs.values()), baseline="song")
    typer.echo()
    typer.echo(_in_words({loss: read_run(place) for loss, place in runs.items()}))
    typer.echo(f"Runs and data are in {output}. Next: `songrank recipes`, `songrank data list`, README.md")


def _in_words(found: dict[str, FinishedRun]) -> str:
    """The result for a reader who has not met NDCG yet, no stronger than the interval allows."""
    song = found["song"]
    lines = [
        "Each model ranked all items that a user has not seen; 1 would put every held-out item first.",
        f"SONG: NDCG@10 {song.metrics['ndcg@10']:.3f} on test.",
    ]
    for loss in ("softmax", "lambdarank"):
        other = found[loss]
        difference = paired_difference(song.per_query["ndcg@10"], other.per_query["ndcg@10"])
        verdict = "above" if difference.mean > 0 else "below"
        verdict = "level with" if difference.low <= 0 <= difference.high else verdict
        lines.append(
            f"SONG is {verdict} {LOSSES[loss]} ({other.metrics['ndcg@10']:.3f}): by {difference.mean:+.4f} a user, "
            f"95 % interval {difference.low:+.4f} to {difference.high:+.4f}."
        )
    return "\n".join(lines)
