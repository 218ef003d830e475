"""Which runs a command is about, where folders of runs may be named."""

from pathlib import Path

import typer


def runs_to_compare(places: list[Path]) -> list[Path]:
    """All runs of these folders but unfinished ones, of which a warning tells; one named itself is never left out."""
    from songrank.analysis.finished_runs import find_runs, how_to_finish

    found, named = find_runs(places), {place.resolve() for place in places}
    finished = [run for run in found if run.resolve() in named or any((run / "evaluation").glob("*.json"))]
    if not finished:
        return found
    for run in found:
        if run not in finished:
            typer.echo(f"warning: {run}: is left out, since it was not evaluated; {how_to_finish(run)}", err=True)
    return finished
