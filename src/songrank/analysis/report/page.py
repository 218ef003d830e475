"""The report page: sections, style, script and data in one self-contained file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from songrank import __version__
from songrank.analysis.finished_runs import Method, find_runs, method_name
from songrank.analysis.report.contents import Contents, Group, Missing, ReportedRun, gather
from songrank.analysis.report.formatting import duration, figure
from songrank.analysis.report.html import Html, document, facts, is_replaceable, tag
from songrank.analysis.report.result_sections import memory_section, metrics_section, queries_section, sizes_section
from songrank.analysis.report.training_section import curves_section, training_section
from songrank.core.errors import DataError
from songrank.data import Dataset
from songrank.io.files import write_whole
from songrank.io.json_files import plain

_GENERATOR = "songrank report"
_SECTIONS = {
    "metrics": ("Metrics", metrics_section),
    "convergence": ("Convergence", curves_section),
    "sizes": ("Sizes", sizes_section),
    "memory": ("Memory", memory_section),
    "queries": ("Queries", queries_section),
    "training": ("Training and data", training_section),
}


def write_report(
    runs: Sequence[Path],
    output: Path | None = None,
    *,
    data: Path | None = None,
    baseline: str | None = None,
    split: str = "test",
    device: str = "auto",
    overwrite: bool = False,
    baseline_models: Sequence[str] = (),
    methods: Sequence[Method] | None = None,
) -> Path:
    """Write a report on one run, or a comparison of several runs, and return its path.

    Args:
        runs: run directories, or directories that contain them; none with ``methods``.
        output: output file; by default ``report.html``, in the run directory if there is only one run.
        data: current path of the data set, if it was moved.
        baseline: label or run of the method that others are compared to; by default the first.
        split: split to report on.
        device: device for inference: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        overwrite: whether to replace a file that is not a report.
        baseline_models: names of baseline models for recommendation to compare with: ``"ease"``, ``"popularity"``, ….
        methods: runs that are grouped already, with baseline models.

    >>> write_report([Path("nowhere")])
    Traceback (most recent call last):
    songrank.core.errors.DataError: nowhere: does not exist; expected a run directory written by `songrank train`
    """
    found = find_runs([path for method in methods for path in method.places] if methods else runs)
    place = output or (found[0] / "report.html" if len(found) == 1 else Path("report.html"))
    if not (overwrite or is_replaceable(place, _GENERATOR, "choose another file with -o")):
        fix = "choose another file with -o, or pass --overwrite"
        raise DataError("already exists and is not a report", fix, file=str(place))
    told: dict[str, Any] = {"split": split, "data": data, "baseline": baseline, "device": device}
    contents = gather(found, **told, baseline_models=baseline_models, methods=methods)
    write_whole(place, render(contents))
    return place


def render(contents: Contents) -> str:
    """The page; equal contents give equal bytes."""
    *others, last = contents.labels
    config = contents.runs[0].config
    title = f"{', '.join(others)} and {last}" if others else _with(config, "with")
    links = [tag("a", words, href=f"#{place}") for place, (words, _) in _SECTIONS.items()]
    nav = tag("nav", *links, aria_label="Contents")
    body = [
        tag("header", tag("h1", title), tag("p", _lead(contents), class_="lead"), nav, _tiles(contents)),
        tag("main", *(tag("section", *parts(contents), id=place) for place, (_, parts) in _SECTIONS.items())),
        tag("footer", f"Made by songrank {__version__}. All figures as JSON: element songrank-data."),
        tag("div", id="tip", role="status", hidden=True),
    ]
    return document(title, _GENERATOR, body, data=_json(contents))


def _with(config: Mapping[str, Any], word: str) -> str:
    """Model and loss of a run, or what a blend combines."""
    loss, model = method_name(config)
    return model if config.get("blend") else f"{model} {word} {loss}"


def _lead(contents: Contents) -> str:
    first = contents.groups[0]
    config = first.runs[0].config
    data = first.data.name if isinstance(first.data, Dataset) else str(config.get("data", "")).rpartition("/")[2]
    several = config.get("members") and not config.get("blend")
    mean = f", ensemble of {config['members']} runs" if several else ""
    what = f"{_with(config, 'trained with')} on {data}{mean}"
    if len(contents.groups) > 1:
        what = f"{len(contents.groups)} methods, {len(contents.runs)} runs on {data}"
    elif len(contents.runs) > 1:
        what += f", {len(contents.runs)} seeds"
    return f"{what}; {contents.split} split"


def _tiles(contents: Contents) -> Html:
    """The main metrics of a single run."""
    run = contents.runs[0]
    measured = run.evaluations.get(contents.split)
    if contents.comparison is not None or measured is None:
        return Html("")
    values = [(f"{name}, {contents.split}", figure(value)) for name, value in list(measured.metrics.items())[:3]]
    values.append((contents.unit.capitalize(), f"{measured.queries:,}"))
    seconds = run.notes.get("seconds")
    values += [("Training", duration(seconds))] if isinstance(seconds, float | int) else []
    return facts(values, class_="tiles")


def _json(contents: Contents) -> str:
    """The contents of the page as JSON that is safe inside HTML."""
    curves = contents.curves
    data = {
        "songrank": __version__,
        "split": contents.split,
        "methods": [_group_data(group) for group in contents.groups],
        "comparison": None if contents.comparison is None else contents.comparison.figures(),
        "curves": asdict(curves) if isinstance(curves, Missing) else [asdict(panel) for panel in curves],
        "sizes": asdict(contents.sizes),
    }
    text = json.dumps(plain(data), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _group_data(group: Group) -> dict[str, Any]:
    return {
        "label": group.label,
        "runs": [_run_data(run) for run in group.runs],
        "data": group.data.info if isinstance(group.data, Dataset) else asdict(group.data),
        "memory": asdict(group.memory),
        "queries": asdict(group.extremes),
    }


def _run_data(run: ReportedRun) -> dict[str, Any]:
    evaluations = {
        split: {"metrics": found.metrics, "queries": found.queries, "empty": found.empty, **found.policies}
        for split, found in run.evaluations.items()
    }
    return {"path": str(run.path), "config": run.config, "run": run.notes, "evaluations": evaluations}
