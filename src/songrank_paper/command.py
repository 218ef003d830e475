"""``songrank paper``: reproduction of the paper's tables and figures."""

import json
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from songrank.cli.printing import TextTable, echo
from songrank.cli.signals import stoppable
from songrank.core.errors import UserError

if TYPE_CHECKING:
    from songrank_paper.cells import Done
    from songrank_paper.experiment import Experiment, Plan
    from songrank_paper.view import PaperView

_MOST_JOBS = 8


def paper(
    name: Annotated[str | None, typer.Argument(help="A result, or all; by default, results are listed.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory of the report and all work.")] = Path(
        "paper"
    ),
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="Data set, prepared or raw; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: everything in minutes on two cores.")] = False,
    device: Annotated[str, typer.Option(help="Device: auto, cpu or cuda.")] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Parallel cells; by default one per core, at most 8, or 1 on a GPU."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Seeds per mean; by default 3, with --quick 2.")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per cell and one at the end.")] = False,
) -> None:
    """Reproduce a result of the paper, with the published numbers beside the new ones.

    Pass data sets with --data: those of the paper (movielens-20m, netflix, mslr-web30k, yahoo-ltr, eurlex-4k,
    wiki10-31k) or substitutes (movielens-1m, movielens-100k, amazon-beauty, amazon-sports, yelp, mslr-web10k,
    mslr-sample, mq2008, mq2007-agg, bibtex, eurlex-4k-text, wiki10-31k-text); for ir-benchmark, ir-health,
    ir-electronic and ir-gowalla, each the archive of IR-Benchmark. For a task without a data set, synthetic
    data with the shape of the paper's data are generated. Each section of the report names its data sets.

        songrank paper                                     list the results
        songrank paper all --quick                         all results, small
        songrank paper table-rs --data movielens-1m=ml-1m.zip
        songrank paper all --device cuda --data mslr-web30k=MSLR-WEB30K.zip

    OUTPUT/report.html has all results so far; OUTPUT/NAME has a CSV file per table and an SVG file per figure.

    The work is divided into experiment cells, which are stored in OUTPUT/cells and shared by results. Ctrl-C or
    SIGTERM stops the command; the same command runs the missing cells.

    Exit codes: 0 success; 2 invalid input; 130 or 143 stopped, can be resumed.
    """
    from songrank.core.devices import choose_device
    from songrank.io.files import make_folder
    from songrank.io.locks import alone
    from songrank_paper import EXPERIMENTS, load_all, load_experiment
    from songrank_paper.cells import Store, run_cells, stored
    from songrank_paper.experiment import Plan
    from songrank_paper.given_sets import DataSets, read_given
    from songrank_paper.page import check_report, write_report
    from songrank_paper.view import PaperView
    from songrank_paper.workers import Workers, cores

    if name is None:
        _list(load_all())
        return
    chosen = list(load_all().values()) if name == "all" else [load_experiment(name)]
    given = read_given(data or [])
    on = choose_device(device).type
    if find_spec("matplotlib") is None:
        raise UserError('figures need matplotlib, which is not installed: pip install "songrank[paper]"')
    check_report(output)
    make_folder(output)
    jobs = min(jobs, cores()) if jobs else _default_jobs(on)
    view = PaperView(quiet=quiet, as_json=as_json)
    sets = DataSets(given, output, quick=quick, report=view.note)
    plan = Plan(quick, on, sets, tuple(range(seeds or (2 if quick else 3))))
    options = _words(output, data or [], quick, device, seeds)
    store = Store(output / "cells", view.warn)
    workers = Workers(jobs)
    with alone(output, "written"), stoppable(workers.stop) as received:
        try:
            with workers, view.shown():
                view.name = name

                def show(experiment: "Experiment", done: "dict[str, Done]") -> None:
                    _show(experiment, done, plan, view, output, options)
                    write_report(output, list(EXPERIMENTS), view.warn)

                run_cells(chosen, plan, store, workers, view, show)
        except KeyboardInterrupt:
            store.sweep()
            for experiment in chosen:
                if experiment.partial and (so_far := stored(experiment, plan, store)):
                    _show(experiment, so_far, plan, view, output, options)
                    write_report(output, list(EXPERIMENTS), view.warn)
            echo(f"stopped, {view.told()}; run the same command to resume", err=True)
            sys.exit(128 + (received[0] if received else 2))
    place = output / "report.html"
    if as_json:
        echo(json.dumps({"report": str(place), "results": [experiment.name for experiment in chosen]}))
    elif not quiet:
        echo(str(place))


def _default_jobs(device: str) -> int:
    from songrank_paper.workers import cores

    return 1 if device == "cuda" else min(cores(), _MOST_JOBS)


def _words(output: Path, data: Sequence[str], quick: bool, device: str, seeds: int | None) -> list[str]:
    """The options that a result depends on."""
    words = [word for one in data for word in ("--data", one)]
    words += ["--quick"] if quick else []
    words += ["--device", device] if device != "auto" else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    return [*words, "-o", str(output)]


def _show(
    experiment: "Experiment",
    done: "dict[str, Done]",
    plan: "Plan",
    view: "PaperView",
    output: Path,
    options: list[str],
) -> None:
    """Write the files of a result whose cells are done."""
    from songrank.data import open_dataset
    from songrank_paper.cells import results
    from songrank_paper.data_sets import describe_set
    from songrank_paper.given_sets import DataSets
    from songrank_paper.page import Section, write_findings

    assert isinstance(plan.data, DataSets)
    plan.data.used.clear()
    experiment.cells(plan, results(done))  # which records the data sets that it uses
    findings = experiment.show(plan, results(done))
    section = Section(
        experiment.name,
        experiment.title,
        shlex.join(["songrank", "paper", experiment.name, *options]),
        plan.quick,
        [describe_set(name, open_dataset(plan.data[name])) for name in plan.data if name in plan.data.used],
        sum(one.seconds for one in done.values()),
        len(done),
        sorted({one.machine for one in done.values()}),
        sorted({one.versions for one in done.values()}),
    )
    write_findings(output, section, findings)
    view.made(experiment, findings.remarks)


def _list(experiments: "dict[str, Experiment]") -> None:
    from rich.console import Console

    table = TextTable("name", "description", box=None, pad_edge=False)
    for name, experiment in experiments.items():
        table.add_row(name, experiment.title)
    table.add_row("all", "All results in one report")
    Console(highlight=False, markup=False).print(table)
