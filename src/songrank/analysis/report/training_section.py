"""The sections about what was trained on what, and how it converged."""

from collections.abc import Mapping, Sequence
from typing import Any

from songrank.analysis.report.contents import Contents
from songrank.analysis.report.curves import Panel
from songrank.analysis.report.formatting import duration, figure, short
from songrank.analysis.report.html import Html, captioned, data_table, facts, folded, join, table, tag
from songrank.analysis.report.plots import Mark, Series, curve_plot, key
from songrank.analysis.report.runs import Missing, ReportedRun
from songrank.data import Dataset


def missing(part: Missing) -> Html:
    """The one line in place of a part."""
    return tag("p", f"Not shown: {part.why}.", class_="missing")


def panels_section(place: str, title: str, about: str, contents: Contents, panels: Sequence[Html]) -> Html:
    """A section of plots, in the colours of the methods."""
    parts = [tag("h2", title), tag("p", about, class_="about"), key(contents.labels)]
    return tag("section", *parts, tag("div", *panels, class_="panels"), id=place)


def training_section(contents: Contents) -> Html:
    """What was trained on what, to the last option."""
    parts, several = [tag("h2", "What was trained on what")], len(contents.runs) > 1
    for group in contents.groups:
        name = [tag("h3", group.label)] if len(contents.groups) > 1 else []
        parts += [*name, _method(group.runs[0].config)]
    parts += _data(contents)
    if several:
        rows = [[group.label, *_run_row(run).values()] for group in contents.groups for run in group.runs]
        parts.append(table("Runs", ["Method", *_run_row(contents.runs[0])], rows, words=2))
    else:
        run = contents.runs[0]
        told = _run_row(run) | {"Run": str(run.path)}
        parts.append(facts((name, told[name]) for name in ("Run", "Status", "Seed", *list(told)[3:])))
    for run in contents.runs:
        which = f" of {run.path.resolve().name}" if several else ""
        parts.append(folded(f"Whole configuration{which}", tag("pre", _yaml(run.config), tabindex=0)))
    return tag("section", *parts, id="training")


def _method(config: Mapping[str, Any]) -> Html:
    components = [(title, _component(config.get(title.lower()))) for title in ("Model", "Loss")]
    stages = [("Warm-up", _stage(config.get("warm_up"))), ("Fine-tuning", _stage(config.get("fine_tuning")))]
    return facts([*components, *stages])


def _run_row(run: ReportedRun) -> dict[str, str]:
    notes = run.notes
    seconds, step = notes.get("seconds"), notes.get("step")
    return {
        "Run": run.path.resolve().name,
        "Seed": str(run.config.get("seed", "")),
        "Status": str(notes.get("status", "")),
        "Device": str(notes.get("device", "")),
        "Steps": f"{step:,}" if isinstance(step, int) else "",
        "Time": duration(seconds) if isinstance(seconds, float | int) else "",
        "songrank": str(notes.get("songrank", "")),
        "torch": str(notes.get("torch", "")),
    }


def _data(contents: Contents) -> list[Html]:
    """The data set of each method's first run in full; of others that runs were trained on, what their folders say."""
    parts = [tag("h3", "Data")]
    seen: set[str] = set()
    first = [(group.runs[0], group.data) for group in contents.groups]
    others = [(run, None) for run in contents.runs]
    for run, data in [*first, *others]:
        place = str(run.config.get("data", ""))
        if place in seen:
            continue
        seen.add(place)
        parts += [missing(data)] if isinstance(data, Missing) else []
        if isinstance(data, Dataset):
            parts.append(_dataset(data, run))
        else:
            parts.append(facts([("Folder", place), ("Checksum", run.notes.get("data_sha256"))]))
    return parts


def _dataset(dataset: Dataset, run: ReportedRun) -> Html:
    info = dataset.info
    sources = "; ".join(f"{source['name']}, {source['bytes']:,} bytes" for source in info["made"]["sources"])
    about = facts(
        [
            ("Data set", f"{dataset.name}, {dataset.task}"),
            ("Queries", f"{dataset.num_queries:,}"),
            ("Items", f"{dataset.num_items:,}"),
            ("Relevant pairs", f"{dataset.num_pairs:,}"),
            ("Sources", sources or "none recorded"),
            ("Checksum", run.notes.get("data_sha256")),
        ]
    )
    rows = []
    for name in dataset:
        split = info["splits"][name]
        relevant = split.get("relevant_per_query", {})
        counts = [f"{split.get(count, 0):,}" for count in ("queries", "items", "pairs")]
        rows.append([name, *counts, f"{relevant.get('median', 0):g}", f"{relevant.get('max', 0):,}"])
    headings = ["Split", "Queries", "Items", "Relevant pairs", "Median a query", "Most a query"]
    sums = [[source["name"], source["sha256"]] for source in info["made"]["sources"]]
    sums += [[f"{name}.safetensors", info["splits"][name].get("sha256", "")] for name in dataset]
    return join(
        [about, table("Splits", headings, rows), folded("Checksums", table("SHA-256", ["File", "SHA-256"], sums))]
    )


def _component(section: Any) -> str:
    if not isinstance(section, dict):
        return ""
    options = ", ".join(f"{name} {value}" for name, value in section.items() if name != "name" and value is not None)
    return f"{section.get('name', '')}" + (f" ({options})" if options else "")


def _stage(section: Any) -> str:
    if not isinstance(section, dict):
        return ""
    if section.get("epochs") == 0:
        return "none"
    words = [
        f"{section.get('epochs')} epochs",
        f"{section.get('optimiser')}, learning rate {section.get('learning_rate')}",
    ]
    words += [f"times {factor} from epoch {epoch} on" for epoch, factor in (section.get("decay") or {}).items()]
    words += [f"weight decay {section['weight_decay']:g}"] if section.get("weight_decay") else []
    if section.get("weight_decay") and section.get("item_decay_power"):
        words[-1] += f", of items by their pairs to the power {section['item_decay_power']:g}"
    words += [f"mean of weights over epochs, {section['average']:g} kept"] if section.get("average") else []
    words += [f"gradient clipped at {section['clip']:g}"] if section.get("clip") else []
    words += ["a new head before it"] if section.get("reset_head") else []
    words += [f"loss {section['loss'].get('name')}"] if isinstance(section.get("loss"), dict) else []
    return "; ".join(words)


def _yaml(config: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return text


def curves_section(contents: Contents) -> Html:
    """Validation and objective by epoch."""
    curves = contents.curves
    if isinstance(curves, Missing):
        return tag("section", tag("h2", "Convergence"), missing(curves), id="convergence")
    about = "Epochs are counted over both stages. A ring marks the epoch whose weights are the result."
    if any(point.seeds > 1 for panel in curves for one in panel.curves for point in one.points):
        about += " Lines are means over seeds, bands one standard deviation to both sides."
    panels = [_panel(panel, contents.labels) for panel in curves]
    return panels_section("convergence", "Convergence", about, contents, panels)


def _panel(panel: Panel, labels: list[str]) -> Html:
    series, rows = [], []
    for curve in panel.curves:
        marks = []
        for point in curve.points:
            chosen = point.epoch in curve.chosen
            tip = f"{curve.label}, epoch {point.epoch} ({point.stage})\n{panel.what}: {figure(point.mean)}"
            tip += f" ± {figure(point.sd)} over {point.seeds} seeds" if point.seeds > 1 else ""
            tip += "\nchosen" if chosen else ""
            low, high = point.mean - point.sd, point.mean + point.sd
            marks.append(Mark(point.epoch, point.mean, tip, low, high, chosen))
            figures = [short(point.mean), short(point.sd), point.seeds, "yes" if chosen else ""]
            rows.append([curve.label, point.stage, point.epoch, *figures])
        series.append(Series(labels.index(curve.label), marks))
    headings = ["Method", "Stage", "Epoch", "Mean", "sd over seeds", "Seeds", "Chosen"]
    plot = curve_plot(panel.title, "epoch", series, warm_up=panel.warm_up)
    return captioned(panel.title, panel.about, plot, data_table(panel.title, headings, rows, words=2))
