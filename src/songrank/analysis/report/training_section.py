"""The sections about what was trained on what, and how it converged."""

from collections.abc import Mapping
from typing import Any

from songrank.analysis.report.contents import Contents
from songrank.analysis.report.curves import Curve, Panel, Point
from songrank.analysis.report.formatting import duration, figure, short
from songrank.analysis.report.html import Html, data_table, facts, folded, join, table, tag
from songrank.analysis.report.plots import Mark, Series, curve_plot, key
from songrank.analysis.report.runs import Missing, Subject
from songrank.data import Dataset


def missing(part: Missing) -> Html:
    """The one line in place of a part."""
    return tag("p", f"Not shown: {part.why}.", class_="missing")


def training_section(contents: Contents) -> Html:
    """What was trained on what, to the last option."""
    parts = [tag("h2", "What was trained on what")]
    for group in contents.groups:
        name = [tag("h3", group.label)] if len(contents.groups) > 1 else []
        parts += [*name, _method(group.subjects[0].config)]
    parts += _data(contents)
    if len(contents.subjects) > 1:
        rows = [[group.label, *_run_row(subject)] for group in contents.groups for subject in group.subjects]
        headings = ["Method", "Run", "Seed", "Status", "Device", "Steps", "Time", "songrank", "torch"]
        parts.append(table("Runs", headings, rows, words=2))
    else:
        parts.append(_run(contents.subjects[0]))
    for group in contents.groups:
        for subject in group.subjects:
            which = f" of {subject.path.resolve().name}" if len(contents.subjects) > 1 else ""
            parts.append(folded(f"Whole configuration{which}", tag("pre", _yaml(subject.config), tabindex=0)))
    return tag("section", *parts, id="training")


def _method(config: Mapping[str, Any]) -> Html:
    return facts(
        [
            ("Model", _component(config.get("model"))),
            ("Loss", _component(config.get("loss"))),
            ("Warm-up", _stage(config.get("warm_up"))),
            ("Fine-tuning", _stage(config.get("fine_tuning"))),
        ]
    )


def _run(subject: Subject) -> Html:
    _, seed, status, device, steps, time, songrank, torch = _run_row(subject)
    entries = [("Run", str(subject.path)), ("Status", status), ("Seed", seed), ("Device", device), ("Steps", steps)]
    return facts([*entries, ("Time", time), ("songrank", songrank), ("torch", torch)])


def _run_row(subject: Subject) -> list[str]:
    notes = subject.notes
    seconds, step = notes.get("seconds"), notes.get("step")
    return [
        subject.path.resolve().name,
        str(subject.config.get("seed", "")),
        str(notes.get("status", "")),
        str(notes.get("device", "")),
        f"{step:,}" if isinstance(step, int) else "",
        duration(seconds) if isinstance(seconds, float | int) else "",
        str(notes.get("songrank", "")),
        str(notes.get("torch", "")),
    ]


def _data(contents: Contents) -> list[Html]:
    """The data set of each method's first run in full; of others that runs were trained on, what their folders say."""
    parts = [tag("h3", "Data")]
    seen: set[str] = set()
    first = [(group.subjects[0], group.data) for group in contents.groups]
    others = [(subject, None) for subject in contents.subjects]
    for subject, data in [*first, *others]:
        place = str(subject.config.get("data", ""))
        if place in seen:
            continue
        seen.add(place)
        parts += [missing(data)] if isinstance(data, Missing) else []
        if isinstance(data, Dataset):
            parts.append(_dataset(data, subject))
        else:
            parts.append(facts([("Folder", place), ("Checksum", subject.notes.get("data_sha256"))]))
    return parts


def _dataset(dataset: Dataset, subject: Subject) -> Html:
    info = dataset.info
    sources = "; ".join(f"{source['name']}, {source['bytes']:,} bytes" for source in info["made"]["sources"])
    about = facts(
        [
            ("Data set", f"{dataset.name}, {dataset.task}"),
            ("Queries", f"{dataset.num_queries:,}"),
            ("Items", f"{dataset.num_items:,}"),
            ("Relevant pairs", f"{dataset.num_pairs:,}"),
            ("Sources", sources or "none recorded"),
            ("Checksum", subject.notes.get("data_sha256")),
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
    parts = [tag("h2", "Convergence")]
    if isinstance(contents.curves, Missing):
        return tag("section", *parts, missing(contents.curves), id="convergence")
    labels = [group.label for group in contents.groups]
    spread = any(point.seeds > 1 for panel in contents.curves for one in panel.curves for point in one.points)
    about = "Epochs are counted over both stages. A ring marks the epoch whose weights are the result."
    about += " Lines are means over seeds, bands one standard deviation to both sides." if spread else ""
    figures = [_panel(panel, labels) for panel in contents.curves]
    return tag(
        "section",
        *parts,
        tag("p", about, class_="about"),
        key(labels),
        tag("div", *figures, class_="panels"),
        id="convergence",
    )


def _yes(point: Point, curve: Curve) -> list[str]:
    return ["yes" if point.epoch in curve.chosen else ""]


def _panel(panel: Panel, labels: list[str]) -> Html:
    series = []
    for curve in panel.curves:
        marks = []
        for point in curve.points:
            chosen = point.epoch in curve.chosen
            tip = f"{curve.label}, epoch {point.epoch} ({point.stage})\n{panel.what}: {figure(point.mean)}"
            tip += f" ± {figure(point.sd)} over {point.seeds} seeds" if point.seeds > 1 else ""
            tip += "\nchosen" if chosen else ""
            low, high = point.mean - point.sd, point.mean + point.sd
            marks.append(Mark(point.epoch, point.mean, tip, low, high, chosen))
        series.append(Series(labels.index(curve.label), marks))
    rows = [
        [curve.label, point.stage, point.epoch, short(point.mean), short(point.sd), point.seeds, *_yes(point, curve)]
        for curve in panel.curves
        for point in curve.points
    ]
    headings = ["Method", "Stage", "Epoch", "Mean", "sd over seeds", "Seeds", "Chosen"]
    caption = tag("figcaption", tag("h3", panel.title), tag("span", panel.about))
    plot = curve_plot(panel.title, "epoch", series, warm_up=panel.warm_up)
    return tag("figure", caption, plot, data_table(panel.title, headings, rows, words=2))
