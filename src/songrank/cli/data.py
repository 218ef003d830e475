"""``songrank data``: which data sets there are, preparing, showing and fetching them."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from songrank.cli.kind_options import KindCommand
from songrank.cli.progress import progress_bar
from songrank.core.errors import DataError
from songrank.data.dataset import Dataset, open_dataset
from songrank.data.prepare import prepare as prepare_dataset
from songrank.data.registry import all_kinds, find_kind

app = typer.Typer(help="Turn files into prepared data sets, and look at them.", no_args_is_help=True)


@app.command("list")
def list_names(name: Annotated[str | None, typer.Argument(help="Show the options of this kind.")] = None) -> None:
    """List the kinds of data sets, or the options of one."""
    console = Console()
    if name is None:
        table = Table("name", "task", "what it is", box=None, pad_edge=False)
        for kind in all_kinds().values():
            table.add_row(kind.name, kind.task, kind.title)
        console.print(table)
        return
    kind = find_kind(name)
    console.print(f"{kind.title}\nsource: {kind.wants}", highlight=False, markup=False)
    table = Table("option", *kind.presets, "meaning", box=None, pad_edge=False)
    columns = [{option: value for option, value, _ in kind.option_table(preset)} for preset in kind.presets]
    for option, _, meaning in kind.option_table():
        table.add_row("--" + option.replace("_", "-"), *(_word(values[option]) for values in columns), meaning)
    console.print(table)
    if len(kind.presets) > 1:
        console.print(f"--preset {kind.default_preset} unless you say otherwise", highlight=False)


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@app.command(cls=KindCommand)
def prepare(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Kind of data set: see `songrank data list`.")],
    source: Annotated[str | None, typer.Argument(help="File, folder, archive, or archive.zip/member.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder to make.")] = None,
    preset: Annotated[str | None, typer.Option(help="Named values of the options, e.g. paper or raw.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a data set that is there.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar, no summary.")] = False,
) -> None:
    """Prepare a data set. More options depend on the kind: `songrank data list NAME` shows them."""
    options: dict[str, Any] = context.obj or {}
    if output is None:
        raise DataError("no place for the data set was named", "say where with -o FOLDER")
    find_kind(name).check_names(options)
    with progress_bar(quiet) as report:
        dataset = prepare_dataset(name, source, output, preset=preset, overwrite=overwrite, progress=report, **options)
    if not quiet:
        _print_summary(dataset)


@app.command()
def download(
    name: Annotated[str, typer.Argument(help="Kind of data set, or an address.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the file.")] = Path("."),
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar.")] = False,
) -> None:
    """Fetch a data set that may be fetched; an interrupted transfer is resumed by the same command."""
    from songrank.data.download import download as fetch

    with progress_bar(quiet) as report:
        file = fetch(name, output, progress=report)
    typer.echo(file)


@app.command()
def show(
    directory: Annotated[Path, typer.Argument(help="A prepared data set.")],
    as_json: Annotated[bool, typer.Option("--json", help="All of it, for programs.")] = False,
) -> None:
    """Show what a prepared data set holds, with published figures beside where there are any."""
    dataset = open_dataset(directory)
    if as_json:
        typer.echo(json.dumps({**dataset.info, "published": published(dataset)}, indent=2, ensure_ascii=False))
        return
    _print_summary(dataset)
    _print_details(dataset)


def published(dataset: Dataset) -> dict[str, Any] | None:
    """What the paper says about this data set, if it does."""
    kind = all_kinds().get(dataset.name)
    known = kind.published if kind else ()
    found = [dict(figures) for figures in known if len(known) == 1 or figures["items"] == dataset.num_items]
    return found[0] if found else None


def _print_summary(dataset: Dataset) -> None:
    console, info, paper = Console(), dataset.info, published(dataset) or {}
    console.print(f"{dataset.path}: {dataset.name}, {dataset.task}", highlight=False, markup=False, soft_wrap=True)
    if "called" in info:
        called = info["called"]
        label = f"labels are {called['label']!r}" if called["label"] else "no labels: every row counts as 1"
        time = f"times are {called['time']!r}" if called["time"] else "no times: rows are taken in their order"
        columns = f"users are {called['query']!r}, items {called['item']!r}; {label}; {time}"
        console.print(columns, highlight=False, markup=False, soft_wrap=True)
    titles = ["", "queries", "documents" if dataset.form == "list" else "items", "pairs"]
    table = Table(*titles, *(["sparsity"] if "sparsity" in info else []), box=None, pad_edge=False)
    rows = [("all", info), *((name, info["splits"][name]) for name in dataset)]
    rows += [(f"paper's {paper['title']}", paper)] if paper else []
    for name, figures in rows:
        counts = (f"{figures[key]:,}" if key in figures else "" for key in ("queries", "items", "pairs"))
        table.add_row(name, *counts, f"{figures['sparsity']:.2%}" if "sparsity" in figures else "")
    console.print(table)
    if "validation" not in dataset and not info["shared_queries"]:
        console.print("no validation split: --validation 0.1 takes a part of the training rows", highlight=False)


def _print_details(dataset: Dataset) -> None:
    info, paper = dataset.info, published(dataset) or {}
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for key, title in (("list_length", "documents a query"), ("relevant_per_query", "relevant items a query")):
        if key in info:
            ours = ", ".join(f"{word} {value:,g}" for word, value in info[key].items())
            theirs = "".join(f"; paper: {word} {value:,}" for word, value in paper.get(key, {}).items())
            console.print(f"{title}: {ours}{theirs}")
    if dataset.task == "labelling":
        for key, among in (("labels_per_text", "queries"), ("texts_per_label", "items")):
            theirs = f"; paper: {paper[key]}" if key in paper else ""
            console.print(f"{key.replace('_per_', ' a ')}: {info['pairs'] / info[among]:.2f}{theirs}")
    total = sum(info["labels"].values())
    console.print("labels: " + ", ".join(f"{label}: {count / total:.1%}" for label, count in info["labels"].items()))
    for name, count in paper.get("splits", {}).items():
        console.print(f"paper: {count:,} queries for {name}")
    for what, count in info["made"]["left_out"].items():
        console.print(f"left out: {count:,} {what}")
    for source in info["made"]["sources"]:
        console.print(f"from {source['name']} ({source['bytes']:,} bytes, sha256 {source['sha256'][:12]}…)")
