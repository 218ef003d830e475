"""Results of experiments as files: CSV tables, SVG figures, and a page with all experiments.

===========================  ===========================================================================================
``NAME/TABLE.csv``           the numbers of a table
``NAME/FIGURE.svg``          a figure
``NAME/findings.json``       the section of the page on this experiment
``report.html``              all experiments of the output directory, in a self-contained file
===========================  ===========================================================================================
"""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from songrank import __version__
from songrank.analysis.report.formatting import duration, short
from songrank.analysis.report.html import Html, document, facts, folded, is_replaceable, table, tag
from songrank.core.errors import DataError
from songrank.core.text import counted
from songrank.io.files import write_whole
from songrank.io.json_files import plain, read_json
from songrank_paper.experiment import Findings, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GENERATOR = "songrank paper"
_LONG = 20  # longer tables are folded
_STYLE = """
.drawings { display: flex; flex-wrap: wrap; gap: 1.25rem; margin: 1.25rem 0; }
.drawings figure { background: #ffffff; padding: 1rem; max-width: 100%; }
.drawings svg { display: block; max-width: 100%; height: auto; }
.scroll th, .scroll td { white-space: nowrap; }
section > h3 { margin-top: 1.5rem; }
ul.remarks { padding-left: 1.2rem; max-width: 48rem; }
"""


@dataclass(frozen=True)
class Section:
    """How the results of an experiment were computed.

    Args:
        name: the NAME of ``songrank paper NAME``.
        title: a one-line description.
        command: command that reproduces it.
        quick: whether it is small, not the full protocol.
        data: a line about each data set.
        seconds: total time of its cells.
        cells: number of cells.
        machines: machines of the cells.
        versions: software versions of the cells.
    """

    name: str
    title: str
    command: str
    quick: bool = False
    data: Sequence[str] = field(default_factory=list)
    seconds: float = 0.0
    cells: int = 0
    machines: Sequence[str] = field(default_factory=list)
    versions: Sequence[str] = field(default_factory=list)


def write_findings(output: Path, section: Section, findings: Findings) -> None:
    """Write the results of an experiment into its directory; only files of an earlier run are removed."""
    folder = output / section.name
    earlier = _written_before(folder)
    written = {f"{name}.csv": _csv(shown) for name, shown in findings.tables.items()}
    written |= {f"{name}.svg": _svg(figure, f"{section.name}/{name}") for name, figure in findings.figures.items()}
    for file, content in written.items():
        write_whole(folder / file, content)
    for file in earlier - written.keys():
        (folder / file).unlink(missing_ok=True)
    tables = {
        name: {"title": shown.title, "columns": list(shown.columns), "rows": [list(row) for row in shown.rows]}
        for name, shown in findings.tables.items()
    }
    remarks, figures = list(findings.remarks), list(findings.figures)
    told = {"section": asdict(section), "remarks": remarks, "tables": tables, "figures": figures}
    write_whole(folder / "findings.json", json.dumps(plain(told), indent=1) + "\n")


def _written_before(folder: Path) -> set[str]:
    """Tables and figures that ``findings.json`` names; empty if it is missing or damaged."""
    try:
        found = read_json(folder / "findings.json")
        return {f"{name}.csv" for name in found["tables"]} | {f"{name}.svg" for name in found["figures"]}
    except (DataError, KeyError, TypeError):
        return set()


def write_report(output: Path, order: Sequence[str], warn: Callable[[str], None] = lambda message: None) -> Path:
    """Write the page with all experiments of a directory, in the order of these names, and return its path.

    Experiments with damaged or missing files are skipped with a warning.
    """
    sections: dict[str, Html] = {}
    for name in order:
        if (output / name / "findings.json").exists():
            try:
                sections[name] = _section(_read(output / name))
            except DataError as error:
                warn(str(error))
            except (AttributeError, KeyError, TypeError, ValueError):
                file = str(output / name / "findings.json")
                warn(str(DataError("is damaged", _left_out(name), file=file)))
    place = output / "report.html"
    write_whole(place, _page(sections))
    return place


def check_report(output: Path) -> None:
    """Raise if the page would replace a file of another program."""
    place = output / "report.html"
    if not is_replaceable(place, _GENERATOR, "choose another directory"):
        what = "already exists and was not made by `songrank paper`"
        raise DataError(what, "choose another directory with -o", file=str(place))


def _csv(shown: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(shown.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in shown.rows)
    return text.getvalue()


def _svg(figure: "Figure", salt: str) -> str:
    """A figure with ids that are unique on the page; equal content gives equal bytes."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        silent = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", bbox_inches="tight", metadata=silent)
    return text.getvalue()


def _read(folder: Path) -> dict[str, Any]:
    """The section of an experiment, with its figures as markup."""
    again = _left_out(folder.name)
    found, drawn = read_json(folder / "findings.json", again), {}
    for name in found["figures"]:
        file = folder / f"{name}.svg"
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise DataError("cannot be read", again, file=str(file)) from None
        drawn[name] = Html(re.sub(r"^.*?(?=<svg)", "", text, flags=re.DOTALL))  # without the XML header
    return {**found, "figures": drawn}


def _left_out(name: str) -> str:
    return f"skipped on the page; run `songrank paper {name}` again"


def _page(sections: Mapping[str, Html]) -> str:
    title = "Reproduced results of the paper"
    lead = (
        "Large-scale Stochastic Optimization of NDCG Surrogates for Deep Learning with Provable Convergence "
        "(Qiu et al., ICML 2022): published and reproduced numbers. Each section names its data sets."
    )
    links = [tag("a", name, href=f"#{name}") for name in sections]
    body = [
        tag("header", tag("h1", title), tag("p", lead, class_="lead"), tag("nav", *links, aria_label="Contents")),
        tag("main", *sections.values()),
        tag("footer", f"Made by songrank {__version__}."),
    ]
    return document(title, _GENERATOR, body, style=_STYLE)


def _section(made: Mapping[str, Any]) -> Html:
    about = Section(**made["section"])
    protocol = "quick: small data or few epochs, not the full protocol" if about.quick else "full"
    parts: list[object] = [
        tag("h2", about.title),
        tag("ul", *(tag("li", r) for r in made["remarks"]), class_="remarks"),
    ]
    if about.data:
        parts += [tag("h3", "Data"), tag("ul", *(tag("li", line) for line in about.data), class_="plain")]
    drawn = [
        tag("figure", figure, role="img", aria_label=f"{about.title}: {name}")
        for name, figure in made["figures"].items()
    ]
    if drawn:
        parts.append(tag("div", *drawn, class_="drawings"))
    for name, shown in made["tables"].items():
        rows = [[_cell(cell) for cell in row] for row in shown["rows"]]
        whole = table(shown["title"], shown["columns"], rows, words=_words(shown["rows"]))
        parts += [tag("h3", shown["title"]), folded(f"{len(rows)} rows", whole) if len(rows) > _LONG else whole]
        parts.append(tag("p", tag("a", f"{name}.csv", href=f"{about.name}/{name}.csv"), class_="note"))
    how = [
        ("Command", tag("code", about.command)),
        ("Protocol", protocol if about.cells else ""),
        ("Work", f"{counted(about.cells, 'cells')}, {duration(about.seconds)}" if about.cells else ""),
        ("Machine", "; ".join(about.machines)),
        ("Versions", "; ".join(about.versions)),
    ]
    return tag("section", *parts, facts(how), id=about.name)


def _words(rows: Sequence[Sequence[object]]) -> int:
    """The number of text columns: the first, and those after it up to the first with a number."""
    kinds = [any(isinstance(cell, int | float) for cell in column) for column in zip(*rows, strict=True)]
    return max(1, kinds.index(True) if True in kinds else len(kinds))


def _cell(value: object) -> str:
    """Format a value.

    >>> _cell(20000263), _cell(0.04219), _cell(None), _cell("not reached")
    ('20,000,263', '0.04219', '–', 'not reached')
    """
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return short(value) if isinstance(value, float) else str(value)
