"""``songrank data``: list, prepare, show and download data sets."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from songrank.cli.help_text import Command
from songrank.cli.kind_options import KindCommand, option_names, option_value
from songrank.cli.printing import TextTable, echo, wide_console
from songrank.cli.progress import progress_bar
from songrank.core.errors import DataError
from songrank.core.limits import RATIO
from songrank.core.text import UNITS, counted, singular
from songrank.data.registry import all_kinds, find_kind

if TYPE_CHECKING:
    from songrank.data import Dataset

app = typer.Typer(help="List, prepare, show and download data sets.", no_args_is_help=True)


@app.command("list", cls=Command)
def list_names(name: Annotated[str | None, typer.Argument(help="Kind whose options to show.")] = None) -> None:
    """List the kinds of data sets, or the options of one kind."""
    console = wide_console()
    if name is None:
        table = TextTable("name", "task", "description", box=None, pad_edge=False)
        for kind in all_kinds().values():
            table.add_row(kind.name, kind.task, kind.title)
        console.print(table)
        return
    kind = find_kind(name)
    echo(f"{kind.title}\nsource: {kind.wants}")
    table = TextTable("option", *kind.presets, "description", box=None, pad_edge=False)
    columns = [{option: value for option, value, _ in kind.option_table(preset)} for preset in kind.presets]
    names = option_names(kind)
    for option, _, meaning in kind.option_table():
        table.add_row(names[option], *(option_value(values[option]) for values in columns), meaning)
    console.print(table)
    if len(kind.presets) > 1:
        echo(f"default: --preset {kind.default_preset}")


@app.command(cls=KindCommand)
def prepare(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="KIND", help="Kind of data set; `songrank data list` shows all.")],
    source: Annotated[str | None, typer.Argument(help="File, directory, archive, or archive.zip/member.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Directory of the prepared data set.")] = None,
    preset: Annotated[str | None, typer.Option(help="Preset of option values, e.g. paper or raw.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing data set.")] = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Sort interactions on disk, within this memory, e.g. 4GB."),
    ] = None,
    max_ratio: Annotated[
        float, typer.Option(min=1, help="Maximum size of a compressed source relative to its compressed size.")
    ] = RATIO,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Hide the progress bar and the summary.")] = False,
) -> None:
    """Prepare a data set.

    Each kind has further options, which `songrank data prepare KIND --help` shows.

        songrank data prepare interactions clicks.csv -o data/clicks
    """
    from songrank.data import prepare as prepare_dataset

    options: dict[str, Any] = context.obj or {}
    if output is None:
        raise DataError("no output directory was given", "pass -o DIRECTORY")
    find_kind(name).check_names(options)
    with progress_bar(quiet) as report:
        dataset = prepare_dataset(
            name,
            source,
            output,
            preset=preset,
            overwrite=overwrite,
            progress=report,
            note=lambda text: echo(f"note: {text}", err=True),
            memory_limit=memory_limit,
            max_ratio=max_ratio,
            **options,
        )
    if not quiet:
        _print_summary(dataset)


@app.command(cls=Command)
def download(
    name: Annotated[str, typer.Argument(help="Kind of data set, or a URL.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory for the file.")] = Path("."),
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Hide the progress bar.")] = False,
) -> None:
    """Download a data set; the same command resumes an interrupted download."""
    from songrank.data.download import download as fetch

    with progress_bar(quiet) as report:
        file = fetch(name, output, progress=report)
    echo(file)


@app.command(cls=Command)
def show(
    directory: Annotated[Path, typer.Argument(help="Directory of a prepared data set.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the contents of a prepared data set beside published statistics, where they exist."""
    from songrank.data import open_dataset

    dataset = open_dataset(directory)
    if as_json:
        echo(json.dumps({**dataset.info, "published": published(dataset)}, indent=2))
        return
    _print_summary(dataset)
    _print_details(dataset)


def published(dataset: "Dataset") -> dict[str, Any] | None:
    """The statistics that the paper reports for this data set."""
    kind = all_kinds().get(dataset.name)
    known = kind.published if kind else ()
    found = [dict(figures) for figures in known if len(known) == 1 or figures["items"] == dataset.num_items]
    return found[0] if found else None


def _print_summary(dataset: "Dataset") -> None:
    from songrank.data.preparation.data_notes import data_notes

    console, info, paper = wide_console(), dataset.info, published(dataset) or {}
    part = "".join(f", {what} {number}" for what, number in info.get("source", {}).items())  # fold 1 of several
    echo(f"{dataset.path}: {dataset.name}, {dataset.task}{part}")
    if "called" in info:
        called = info["called"]
        label = (
            f"labels {called['label']!r}"
            if called["label"]
            else "no label column: every row counts as 1 (or pass --label-column)"
        )
        time = (
            f"times {called['time']!r}"
            if called["time"]
            else "no time column: the order of the rows is used (or pass --time-column)"
        )
        split = f"; splits {called['split']!r}" if "split" in called else ""
        echo(f"columns: users {called['query']!r}, items {called['item']!r}; {label}; {time}{split}")
    titles = ["", *_units(dataset), "pairs"]
    table = TextTable(*titles, *(["sparsity"] if "sparsity" in info else []), box=None, pad_edge=False)
    rows = [("all", info), *((name, info["splits"][name]) for name in dataset)]
    rows += [(f"paper's {paper['title']}", paper)] if paper else []
    for name, figures in rows:
        counts = (f"{figures[key]:,}" if key in figures else "" for key in ("queries", "items", "pairs"))
        table.add_row(name, *counts, f"{figures['sparsity']:.2%}" if "sparsity" in figures else "")
    console.print(table)
    for note in data_notes(info):
        echo(note)
    if "validation" not in dataset and not info["shared_queries"]:
        echo("no validation split; --validation 0.1 splits one off the training rows")


def _units(dataset: "Dataset") -> tuple[str, str]:
    """What queries and items are called in this task."""
    queries = UNITS.get(dataset.task, "queries")
    return queries, {"users": "items", "texts": "labels"}.get(queries, "documents")


def _print_details(dataset: "Dataset") -> None:
    info, paper = dataset.info, published(dataset) or {}
    queries, items = _units(dataset)
    each = singular(queries)
    for key, title in (("list_length", f"{items} per {each}"), ("relevant_per_query", f"relevant {items} per {each}")):
        if key in info:
            ours = ", ".join(f"{word} {value:,g}" for word, value in info[key].items())
            theirs = "".join(f"; paper: {word} {value:,}" for word, value in paper.get(key, {}).items())
            echo(f"{title}: {ours}{theirs}")
    if dataset.task == "labelling":
        for key, among in (("labels_per_text", "queries"), ("texts_per_label", "items")):
            theirs = f"; paper: {paper[key]}" if key in paper else ""
            echo(f"{key.replace('_', ' ')}: {info['pairs'] / info[among]:.2f}{theirs}")
    total = sum(info["labels"].values())
    echo("labels: " + ", ".join(f"{label}: {count / total:.1%}" for label, count in info["labels"].items()))
    for name, count in paper.get("splits", {}).items():
        echo(f"paper: {counted(count, queries)} for {name}")
    for what, count in info["made"]["left_out"].items():
        echo(f"left out: {count:,} {what}")
    for source in info["made"]["sources"]:
        echo(f"from {source['name']} ({source['bytes']:,} bytes, sha256 {source['sha256'][:12]}…)")
