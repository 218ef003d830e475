"""The page: sections, style, script and data in one file that asks the network for nothing."""

import base64
import hashlib
import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from songrank import __version__
from songrank.analysis.report.contents import Contents, Group
from songrank.analysis.report.formatting import duration, figure
from songrank.analysis.report.html import Html, escaped, tag
from songrank.analysis.report.result_sections import memory_section, metrics_section, queries_section, sizes_section
from songrank.analysis.report.runs import Missing
from songrank.analysis.report.training_section import curves_section, training_section
from songrank.data import Dataset
from songrank.io.json_files import plain

MARKER = '<meta name="generator" content="songrank report">'
"""Stands at the beginning of every report, and tells one from other files."""

_SECTIONS = {
    "metrics": "Metrics",
    "convergence": "Convergence",
    "sizes": "Sizes",
    "memory": "Memory",
    "queries": "Queries",
    "training": "Training and data",
}


def render(contents: Contents) -> str:
    """The whole page; equal contents give equal bytes."""
    script, style = _asset("page.js"), _asset("page.css")
    title = _title(contents)
    # Only this script runs, whatever an id or a title says; nothing is fetched.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    body = [
        tag("header", tag("h1", title), tag("p", _lead(contents), class_="lead"), _contents(), _tiles(contents)),
        tag(
            "main",
            metrics_section(contents),
            curves_section(contents),
            sizes_section(contents),
            memory_section(contents),
            queries_section(contents),
            training_section(contents),
        ),
        tag("footer", f"Made by songrank {__version__}. All figures: the element songrank-data of this page, as JSON."),
        tag("div", id="tip", role="status", hidden=True),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{MARKER}\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f'\n<script type="application/json" id="songrank-data">{_json(contents)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files("songrank.analysis.report").joinpath(name).read_text(encoding="utf-8")


def _title(contents: Contents) -> str:
    config = contents.subjects[0].config
    if len(contents.groups) > 1:
        *others, last = [group.label for group in contents.groups]
        return f"{', '.join(others)} and {last}"
    return str(config.get("title") or contents.groups[0].label)


def _lead(contents: Contents) -> str:
    first = contents.groups[0]
    config = first.subjects[0].config
    data = first.data.name if isinstance(first.data, Dataset) else str(config.get("data", "")).rpartition("/")[2]
    mean = f", the mean of {members} runs" if (members := config.get("members")) else ""
    what = f"{config['model']['name']} trained with {config['loss']['name']} on {data}{mean}"
    if len(contents.groups) > 1:
        what = f"{len(contents.groups)} methods, {len(contents.subjects)} runs on {data}"
    elif len(contents.subjects) > 1:
        what += f", {len(contents.subjects)} seeds"
    return f"{what}; figures of the {contents.split} split"


def _contents() -> Html:
    links = [tag("a", words, href=f"#{place}") for place, words in _SECTIONS.items()]
    return tag("nav", *links, aria_label="Contents")


def _tiles(contents: Contents) -> Html:
    """The figures that most readers came for; for one run."""
    subject = contents.subjects[0]
    measured = subject.evaluations.get(contents.split)
    if contents.comparison is not None or measured is None:
        return Html("")
    values = [(f"{name}, {contents.split}", figure(value)) for name, value in list(measured.metrics.items())[:3]]
    values.append(("Queries", f"{measured.queries:,}"))
    seconds = subject.notes.get("seconds")
    values += [("Training", duration(seconds))] if isinstance(seconds, float | int) else []
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in values), class_="tiles")


def _json(contents: Contents) -> str:
    """The data, as JSON that no parser of HTML can take for anything else."""
    text = json.dumps(plain(as_data(contents)), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def as_data(contents: Contents) -> dict[str, Any]:
    """Everything that the page shows, in plain values."""
    comparison = contents.comparison
    return {
        "songrank": __version__,
        "split": contents.split,
        "methods": [_group_data(group) for group in contents.groups],
        "comparison": None if comparison is None else comparison.figures(),
        "curves": _part(contents.curves),
        "sizes": _part(contents.sizes),
    }


def _group_data(group: Group) -> dict[str, Any]:
    runs = [
        {
            "path": str(subject.path),
            "config": subject.config,
            "run": subject.notes,
            "evaluations": {
                split: {"metrics": run.metrics, "queries": run.queries, "empty": run.empty, **run.policies}
                for split, run in subject.evaluations.items()
            },
        }
        for subject in group.subjects
    ]
    data = asdict(group.data) if isinstance(group.data, Missing) else group.data.info
    return {
        "label": group.label,
        "runs": runs,
        "data": data,
        "memory": _part(group.memory),
        "queries": _part(group.extremes),
    }


def _part(part: Any) -> Any:
    return [asdict(one) for one in part] if isinstance(part, list) else asdict(part)
