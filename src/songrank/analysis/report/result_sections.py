"""Sections about results: metrics, differences, query sizes, memory, and single queries."""

from songrank.analysis.method_comparison import MethodComparison
from songrank.analysis.report.contents import Contents, Extremes, Memory, Missing
from songrank.analysis.report.formatting import figure, mean_sd, policy_sentences, short, signed
from songrank.analysis.report.html import Html, captioned, folded, table, tag, with_data
from songrank.analysis.report.plots import Mark, Series, interval_plot, scatter_plot
from songrank.analysis.report.queries import RankedItem, RankedQuery
from songrank.analysis.report.remembered import Remembered
from songrank.analysis.report.training_section import missing, panels_parts
from songrank.metrics.comparison import Difference


def metrics_section(contents: Contents) -> list[Html]:
    """Final metrics and the policies of the evaluation."""
    parts = [tag("h2", "Final metrics")]
    first = contents.runs[0]
    measured = first.evaluations.get(contents.split) or next(iter(first.evaluations.values()), None)
    if first.unread is not None:
        parts.append(missing(first.unread))
    if contents.comparison is not None:
        parts += _comparison(contents, contents.comparison)
    elif measured is not None:
        names = list(dict.fromkeys(name for run in first.evaluations.values() for name in run.metrics))
        rows = [[name, *(figure(run.metrics.get(name)) for run in first.evaluations.values())] for name in names]
        rows.append([contents.unit.capitalize(), *(f"{run.queries:,}" for run in first.evaluations.values())])
        rows.append(["Without relevant items", *(f"{run.empty:,}" for run in first.evaluations.values())])
        parts.append(table("Metrics of each split", ["Metric", *first.evaluations], rows))
    if measured is not None:
        sentences = policy_sentences(measured, first.task)
        parts.append(tag("ul", *(tag("li", sentence) for sentence in sentences), class_="plain"))
    return parts


def _comparison(contents: Contents, found: MethodComparison) -> list[Html]:
    means = {label: [mean_sd(one.mean, one.sd) for one in own.values()] for label, own in found.summaries.items()}
    rows: list[list[object]] = [[one.label, len(one.runs), *means[one.label]] for one in found.methods]
    parts = [
        tag("p", f"Means on the {contents.split} split, ± standard deviation over seeds.", class_="about"),
        table(f"Means on the {contents.split} split", ["Method", "Runs", *found.metrics], rows),
    ]
    if not found.differences:
        return parts
    base = found.baseline.label
    rows = [
        [label, name, signed(one.mean), _interval(one), one.wins, one.ties, one.losses]
        for label, by_metric in found.differences.items()
        for name, one in by_metric.items()
    ]
    headings = ["Method", "Metric", "Difference", "95 % interval", "Better", "Same", "Worse"]
    plots = [_difference_plot(found, name, [one.label for one in found.methods]) for name in found.metrics]
    return [
        *parts,
        tag("h3", f"Paired differences to {base}"),
        tag("p", _interval_words(found, contents.unit), class_="about"),
        table(f"Differences to {base}", headings, rows, words=2),
        tag("div", *plots, class_="panels"),
    ]


def _interval(one: Difference) -> str:
    return f"{signed(one.low)} to {signed(one.high)}"


def _interval_words(found: MethodComparison, unit: str) -> str:
    differences = [one for by_metric in found.differences.values() for one in by_metric.values()]
    over = f"over {unit} and seeds"
    if not all(one.first_seeds and one.second_seeds for one in differences):
        over = f"over {unit} and, for several seeds, over seeds; with one seed, the variation between seeds is missing"
    words = f"Paired differences with intervals by Student's t {over}."
    return f"{words} Intervals are not adjusted for multiple comparisons."


def _difference_plot(found: MethodComparison, metric: str, labels: list[str]) -> Html:
    series, rows, base = [], [], found.baseline.label
    for at, (label, by_metric) in enumerate(found.differences.items()):
        one = by_metric[metric]
        tip = f"{label} − {base}\n{metric}: {signed(one.mean)}\n95 %: {_interval(one)}"
        series.append(Series(labels.index(label), [Mark(at, one.mean, tip, one.low, one.high)]))
        rows.append([label, signed(one.mean), signed(one.low), signed(one.high)])
    title = f"{metric}: difference to {base}"
    plot = interval_plot(title, "", list(found.differences), series, zero=True)
    headings = ["Method", "Difference", "Low", "High"]
    return with_data(title, "mean and 95 % interval", plot, headings=headings, rows=rows)


def sizes_section(contents: Contents) -> list[Html]:
    """The metric by list length, activity, or number of labels."""
    sizes = contents.sizes
    if isinstance(sizes, Missing):
        return [tag("h2", "By query size"), missing(sizes)]
    title = f"{sizes.metric} by {sizes.what}"
    series, rows = [], []
    names = [_range(one.first, one.last) for one in next(iter(sizes.bins.values()))]
    for number, (label, bins) in enumerate(sizes.bins.items()):
        marks = []
        for at, one in enumerate(bins):
            mean, low, high, queries = figure(one.mean), figure(one.low), figure(one.high), f"{one.queries:,}"
            tip = f"{label}, {sizes.what} {names[at]}\n{sizes.metric} {mean}\n95 %: {low} to {high}\n{queries} queries"
            marks.append(Mark(at, one.mean, tip, one.low, one.high))
            rows.append([label, names[at], queries, mean, low, high])
        series.append(Series(number, marks))
    about = "Bins are quantiles of about equal count; means with 95 % intervals over the bin."
    headings = ["Method", sizes.what.capitalize(), "Queries", "Mean", "Low", "High"]
    plot = interval_plot(title, sizes.what, names, series)
    panel = with_data(title, f"on the {contents.split} split", plot, headings=headings, rows=rows)
    return panels_parts(f"By {sizes.what}", about, contents, [panel])


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def memory_section(contents: Contents) -> list[Html]:
    """The memory of losses beside exact values."""
    about = (
        "A loss with memory uses estimates from earlier slates. The plots compare them with exact values, computed on "
        "complete lists with the weights of the last checkpoint, without dropout. Points near the diagonal are "
        "accurate. Sample of at most 200 training queries and 2,000 pairs."
    )
    parts, figures = [tag("h2", "Memory and exact values")], []
    if any(isinstance(group.memory, Memory) for group in contents.groups):
        parts.append(tag("p", about, class_="about"))
    for number, group in enumerate(contents.groups):
        if isinstance(group.memory, Missing):
            parts.append(missing(group.memory, of=_several(contents, group.label)))
        else:
            figures += [_memory_figure(group.label, number, group.memory, one) for one in group.memory.tables]
    return [*parts, tag("div", *figures, class_="panels")] if figures else parts


def _several(contents: Contents, label: str) -> str:
    return label if len(contents.groups) > 1 else ""


def _memory_figure(label: str, number: int, memory: Memory, one: Remembered) -> Html:
    name, truth, is_log = one.titles
    title = f"{label}: {name} and {truth}"
    about = f"{memory.loss}, seed {memory.seed}, after step {memory.step:,}; {len(one.exact):,} rows"
    about += f", {one.unvisited:,} more unvisited" if one.unvisited else ""
    moving = "; training used random windows, exact values use others, which explains part of the distance"
    about += moving if memory.moving else ""
    if not one.exact:
        none = "No row of the sample was visited, or K is the length of the list."
        return captioned(title, about, tag("p", none, class_="note"))
    pairs = list(zip(one.exact, one.remembered, strict=True))
    marks = [Mark(x, y, f"{truth} {short(x)}\n{name} {short(y)}") for x, y in pairs]
    plot = scatter_plot(title, truth, name, Series(number, marks), log=is_log)
    figures = [[what, short(value)] for what, value in one.figures().items()]
    agreement = table(f"{title}: agreement", ["Agreement", ""], figures)
    rows = [[at, short(x), short(y)] for at, (x, y) in enumerate(pairs, 1)]
    return with_data(title, about, plot, agreement, headings=["Row", truth, name], rows=rows, words=0)


def queries_section(contents: Contents) -> list[Html]:
    """The best and worst queries."""
    about = (
        f"On the {contents.split} split, among {contents.unit} with a relevant item: the top items, "
        "with labels of relevant items, and the ranks of relevant items. Of equal values, the worst are those whose "
        "first relevant item is ranked lowest."
    )
    parts = [tag("h2", f"Best and worst {contents.unit}"), tag("p", about, class_="about")]
    for at, group in enumerate(contents.groups):
        found = group.extremes
        if isinstance(found, Missing):
            parts.append(missing(found, of=_several(contents, group.label)))
        elif len(contents.groups) > 1:
            parts.append(folded(f"{group.label}, seed {found.seed}", _extremes(found), is_open=at == 0))
        else:
            parts.append(_extremes(found))
    return parts


def _extremes(found: Extremes) -> Html:
    both = [("Best", found.best), ("Worst", found.worst)]
    columns = [tag("div", tag("h3", f"{which} by {found.metric}"), *map(_query, queries)) for which, queries in both]
    return tag("div", *columns, class_="queries")


def _query(one: RankedQuery) -> Html:
    relevant = ", ".join(f"{item.item} at rank {item.rank:,g}" for item in one.relevant)
    more = one.num_relevant - len(one.relevant)
    relevant += f", and {more:,} more" if more else ""
    return tag(
        "article",
        tag("h4", tag("span", f"Query {one.query}"), tag("span", figure(one.value))),
        tag("ol", *(_item(item) for item in one.top)),
        tag("p", f"Relevant: {relevant}; {one.list_size:,} items."),
        class_="query",
    )


def _item(item: RankedItem) -> Html:
    hit = tag("span", f"label {item.label:g}", class_="hit") if item.label > 0 else tag("span")
    return tag("li", tag("span", f"{item.rank:,g}"), tag("span", item.item), hit)
