"""Sections about training and data, and about convergence."""

from collections.abc import Mapping, Sequence
from typing import Any

from songrank.analysis.report.contents import Contents, Missing, ReportedRun
from songrank.analysis.report.curves import Panel
from songrank.analysis.report.formatting import duration, figure, short
from songrank.analysis.report.html import Html, facts, folded, table, tag, with_data
from songrank.analysis.report.plots import Mark, Series, curve_plot, key
from songrank.core.text import UNITS, counted, singular
from songrank.data import Dataset

_STAGE_WORDS = {
    "ema_decay": "EMA of weights over epochs, decay {:g}",
    "clip": "gradients clipped at norm {:g}",
    "reset_head": "new head at the start",
}


def missing(part: Missing, *, of: str = "") -> Html:
    """The line in place of a missing part, ``of`` a method if there are several."""
    return tag("p", f"Not shown: {of and f'{of}: '}{part.why}.", class_="missing")


def panels_parts(title: str, about: str, contents: Contents, panels: Sequence[Html]) -> list[Html]:
    """A section of plots with the legend of the methods."""
    parts = [tag("h2", title), tag("p", about, class_="about"), key(contents.labels)]
    return [*parts, tag("div", *panels, class_="panels")]


def training_section(contents: Contents) -> list[Html]:
    """Models, losses, schedules, data sets and configurations."""
    parts, several = [tag("h2", "Training and data")], len(contents.runs) > 1
    for group in contents.groups:
        parts += [tag("h3", group.label)] if len(contents.groups) > 1 else []
        config = group.runs[0].config
        if config.get("blend"):
            parts.append(_members(config))
            continue
        components = [(title, _component(config.get(title.lower()))) for title in ("Model", "Loss")]
        stages = [("Warm-up", _stage(config.get("warm_up"))), ("Fine-tuning", _stage(config.get("fine_tuning")))]
        parts.append(facts([*components, *stages]))
    parts += _data(contents)
    if several:
        rows = [[group.label, *_run_row(run).values()] for group in contents.groups for run in group.runs]
        parts.append(table("Runs", ["Method", *_run_row(contents.runs[0])], rows, words=2))
    else:
        run = contents.runs[0]
        row = _run_row(run) | {"Run": str(run.path)}
        parts.append(facts((name, row[name]) for name in ("Run", "Status", "Seed", *list(row)[3:])))
    for run in contents.runs:
        which = f" of {run.path.resolve().name}" if several else ""
        parts.append(folded(f"Full configuration{which}", tag("pre", _yaml(run.config), tabindex=0)))
    return parts


def _members(config: Mapping[str, Any]) -> Html:
    """The runs of a blend and their weights."""
    rows = []
    for member in config["blend"]["members"]:
        changes = member.get("changes", {})
        model, loss = (str(changes.get(f"{key}.name", config[key]["name"])) for key in ("model", "loss"))
        rows.append([str(member["run"]), model, loss, str(member.get("seed", "")), f"{member['weight']:.2f}"])
    return table("Members of the blend", ["Run", "Model", "Loss", "Seed", "Weight"], rows, words=3)


def _run_row(run: ReportedRun) -> dict[str, str]:
    seconds, step = run.notes.get("seconds"), run.notes.get("step")
    return {
        "Run": run.path.resolve().name,
        "Seed": str(run.config.get("seed", "")),
        "Status": str(run.notes.get("status", "")),
        "Device": str(run.notes.get("device", "")),
        "Steps": f"{step:,}" if isinstance(step, int) else "",
        "Time": duration(seconds) if isinstance(seconds, float | int) else "",
        "Time by phase": _phases(run.notes.get("phase_seconds")),
        "songrank": str(run.notes.get("songrank", "")),
        "torch": str(run.notes.get("torch", "")),
    }


def _phases(seconds: Any) -> str:
    """The time of each phase, the longest first."""
    if not isinstance(seconds, dict):
        return ""
    known = {name: value for name, value in seconds.items() if isinstance(value, float | int)}
    texts = {name: duration(value) if value >= 10 else f"{value:.1f} s" for name, value in known.items()}
    return ", ".join(f"{name} {texts[name]}" for name in sorted(known, key=lambda name: -known[name]))


def _data(contents: Contents) -> list[Html]:
    """The data set of the first run of each method in full; of other data sets the path and the checksum."""
    parts = [tag("h3", "Data")]
    seen: set[str] = set()
    first = [(group.runs[0], group.data) for group in contents.groups]
    for run, data in [*first, *((run, None) for run in contents.runs)]:
        place = str(run.config.get("data", ""))
        if place not in seen:
            seen.add(place)
            parts += [missing(data)] if isinstance(data, Missing) else []
            checksum = ("Checksum", run.notes.get("data_sha256"))
            parts += _dataset(data, checksum) if isinstance(data, Dataset) else [facts([("Path", place), checksum])]
    return parts


def _dataset(dataset: Dataset, checksum: tuple[str, Any]) -> list[Html]:
    splits, sources = dataset.info["splits"], dataset.info["made"]["sources"]
    about = facts(
        [
            ("Data set", f"{dataset.name}, {dataset.task}"),
            (UNITS.get(dataset.task, "queries").capitalize(), f"{dataset.num_queries:,}"),
            ("Items", f"{dataset.num_items:,}"),
            ("Relevant pairs", f"{dataset.num_pairs:,}"),
            ("Sources", "; ".join(f"{one['name']}, {one['bytes']:,} bytes" for one in sources) or "none recorded"),
            checksum,
        ]
    )
    rows = []
    for name in dataset:
        relevant = splits[name].get("relevant_per_query", {})
        counts = [f"{splits[name].get(count, 0):,}" for count in ("queries", "items", "pairs")]
        rows.append([name, *counts, f"{relevant.get('median', 0):g}", f"{relevant.get('max', 0):,}"])
    unit = UNITS.get(dataset.task, "queries")
    each = singular(unit)
    headings = ["Split", unit.capitalize(), "Items", "Relevant pairs", f"Median per {each}", f"Maximum per {each}"]
    sums = [[source["name"], source["sha256"]] for source in sources]
    sums += [[f"{name}.safetensors", splits[name].get("sha256", "")] for name in dataset]
    checksums = folded("Checksums", table("SHA-256", ["File", "SHA-256"], sums))
    return [about, table("Splits", headings, rows), checksums]


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
    optimiser = f"{section.get('optimiser')}, learning rate {section.get('learning_rate')}"
    least = f" (at least {section['min_steps']:,} steps)" if section.get("min_steps") else ""
    words = [counted(int(section.get("epochs") or 0), "epochs") + least, optimiser]
    words += [f"learning rate × {factor} after epoch {epoch}" for epoch, factor in (section.get("decay") or {}).items()]
    if weight := section.get("weight_decay"):
        power = section.get("item_decay_power")
        words.append(f"weight decay {weight:g}" + (f", frequency-scaled for items (power {power:g})" if power else ""))
    words += [text.format(section[name]) for name, text in _STAGE_WORDS.items() if section.get(name)]
    words += [f"loss {section['loss'].get('name')}"] if isinstance(section.get("loss"), dict) else []
    return "; ".join(words)


def _yaml(config: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100))


def curves_section(contents: Contents) -> list[Html]:
    """Validation metrics and objectives by epoch."""
    curves = contents.curves
    if isinstance(curves, Missing):
        return [tag("h2", "Convergence"), missing(curves)]
    about = "Epochs are counted over both stages. A ring marks the epoch of the checkpoint that was kept."
    if any(point.seeds > 1 for panel in curves for one in panel.curves for point in one.points):
        about += " Lines are means over seeds; bands are ± one standard deviation."
    return panels_parts("Convergence", about, contents, [_panel(panel, contents.labels) for panel in curves])


def _panel(panel: Panel, labels: list[str]) -> Html:
    series, rows = [], []
    for curve in panel.curves:
        marks = []
        for point in curve.points:
            chosen = point.epoch in curve.chosen
            tip = f"{curve.label}, epoch {point.epoch} ({point.stage})\n{panel.what}: {figure(point.mean)}"
            tip += f" ± {figure(point.sd)} over {point.seeds} seeds" if point.seeds > 1 else ""
            tip += "\nchosen" if chosen else ""
            marks.append(Mark(point.epoch, point.mean, tip, point.mean - point.sd, point.mean + point.sd, chosen))
            figures = [short(point.mean), short(point.sd), point.seeds, "yes" if chosen else ""]
            rows.append([curve.label, point.stage, point.epoch, *figures])
        series.append(Series(labels.index(curve.label), marks))
    headings = ["Method", "Stage", "Epoch", "Mean", "SD over seeds", "Seeds", "Chosen"]
    plot = curve_plot(panel.title, "epoch", series, warm_up=panel.warm_up)
    return with_data(panel.title, panel.about, plot, headings=headings, rows=rows, words=2)
