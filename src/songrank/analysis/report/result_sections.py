"""The sections about what came out: metrics, differences, sizes of queries, memory, and single queries."""

import math

from songrank.analysis.finished_runs import FinishedRun
from songrank.analysis.method_comparison import MethodComparison
from songrank.analysis.report.contents import Contents, Extremes, Memory
from songrank.analysis.report.formatting import figure, policy_sentences, short, signed
from songrank.analysis.report.html import Html, data_table, table, tag
from songrank.analysis.report.plots import Mark, Series, interval_plot, key, scatter_plot
from songrank.analysis.report.queries import RankedItem, RankedQuery
from songrank.analysis.report.remembered import Remembered
from songrank.analysis.report.runs import Missing
from songrank.analysis.report.training_section import missing


def metrics_section(contents: Contents) -> Html:
    """Final figures, and the policies that they were computed under."""
    parts = [tag("h2", "Final metrics")]
    first = contents.subjects[0]
    measured = first.evaluations.get(contents.split) or next(iter(first.evaluations.values()), None)
    if first.unread is not None:
        parts.append(missing(first.unread))
    if contents.comparison is not None:
        parts += _comparison(contents, contents.comparison)
    elif measured is not None:
        names = list(dict.fromkeys(name for run in first.evaluations.values() for name in run.metrics))
        rows = [
            [
                split,
                *(figure(_value(run, name)) for name in names),
                f"{run.queries:,}",
                f"{run.empty:,}",
            ]
            for split, run in first.evaluations.items()
        ]
        parts.append(table("Metrics of each split", ["Split", *names, "Queries", "Without relevant items"], rows))
    if measured is not None:
        sentences = [tag("li", sentence) for sentence in policy_sentences(measured, first.task)]
        parts.append(tag("ul", *sentences, class_="plain"))
    return tag("section", *parts, id="metrics")


def _value(run: FinishedRun, name: str) -> float:
    value = run.metrics.get(name)
    return math.nan if value is None else value


def _comparison(contents: Contents, found: MethodComparison) -> list[Html]:
    labels = [group.label for group in contents.groups]
    rows = []
    for group in contents.groups:
        cells = [
            figure(one.mean) + ("" if math.isnan(one.sd) else f" ± {figure(one.sd)}")
            for one in found.summaries[group.label].values()
        ]
        rows.append([group.label, len(group.subjects), *cells])
    parts = [
        tag("p", f"On the {contents.split} split: means, ± the standard deviation over seeds.", class_="about"),
        table(f"Means on the {contents.split} split", ["Method", "Runs", *found.metrics], rows),
    ]
    if not found.differences:
        return parts
    rows = [
        [
            label,
            name,
            signed(one.mean),
            f"{signed(one.low)} to {signed(one.high)}",
            *map(str, (one.wins, one.ties, one.losses)),
        ]
        for label, by_metric in found.differences.items()
        for name, one in by_metric.items()
    ]
    headings = ["Method", "Metric", "Difference", "95 % interval", "Better", "Same", "Worse"]
    parts += [
        tag("h3", f"Paired differences to {found.baseline.label}"),
        tag("p", _interval_words(found), class_="about"),
        table(f"Differences to {found.baseline.label}", headings, rows, words=2),
        tag("div", *(_difference_plot(found, name, labels) for name in found.metrics), class_="panels"),
    ]
    return parts


def _interval_words(found: MethodComparison) -> str:
    differences = [one for by_metric in found.differences.values() for one in by_metric.values()]
    seeds = [one.first_seeds and one.second_seeds for one in differences]
    over = "over queries and seeds" if all(seeds) else "over queries, and over seeds where there are several"
    over += "" if all(seeds) else "; one seed cannot say what another would change"
    words = f"Differences of the same query, with Student's t {over}."
    return f"{words} Intervals are not adjusted for the number of comparisons."


def _difference_plot(found: MethodComparison, metric: str, labels: list[str]) -> Html:
    series = []
    for at, (label, by_metric) in enumerate(found.differences.items()):
        one = by_metric[metric]
        interval = f"95 %: {signed(one.low)} to {signed(one.high)}"
        tip = f"{label} − {found.baseline.label}\n{metric}: {signed(one.mean)}\n{interval}"
        series.append(Series(labels.index(label), [Mark(at, one.mean, tip, one.low, one.high)]))
    title = f"{metric}: difference to {found.baseline.label}"
    plot = interval_plot(title, "", list(found.differences), series, zero=True)
    caption = tag("figcaption", tag("h3", title), tag("span", "mean and 95 % interval"))
    rows = [
        [label, *(signed(value) for value in (by_metric[metric].mean, by_metric[metric].low, by_metric[metric].high))]
        for label, by_metric in found.differences.items()
    ]
    return tag("figure", caption, plot, data_table(title, ["Method", "Difference", "Low", "High"], rows))


def sizes_section(contents: Contents) -> Html:
    """The metric by list length, activity, or number of labels."""
    sizes = contents.sizes
    if isinstance(sizes, Missing):
        return tag("section", tag("h2", "By size of the query"), missing(sizes), id="sizes")
    labels = [group.label for group in contents.groups]
    title = f"{sizes.metric} by {sizes.what}"
    series, rows = [], []
    names = [_range(one.first, one.last) for one in next(iter(sizes.bins.values()))]
    for number, (label, bins) in enumerate(sizes.bins.items()):
        marks = []
        for at, one in enumerate(bins):
            words = [f"{label}, {sizes.what} {names[at]}", f"{sizes.metric} {figure(one.mean)}"]
            words += [f"95 %: {figure(one.low)} to {figure(one.high)}", f"{one.queries:,} queries"]
            marks.append(Mark(at, one.mean, "\n".join(words), one.low, one.high))
            rows.append([label, names[at], f"{one.queries:,}", figure(one.mean), figure(one.low), figure(one.high)])
        series.append(Series(number, marks))
    about = "Queries in bins of about equal count, by quantiles; means with 95 % intervals over the queries of a bin."
    headings = ["Method", sizes.what.capitalize(), "Queries", "Mean", "Low", "High"]
    caption = tag("figcaption", tag("h3", title), tag("span", f"on the {contents.split} split"))
    plot = interval_plot(title, sizes.what, names, series)
    shown = tag("figure", caption, plot, data_table(title, headings, rows))
    return tag(
        "section",
        tag("h2", f"By {sizes.what}"),
        tag("p", about, class_="about"),
        key(labels),
        tag("div", shown, class_="panels"),
        id="sizes",
    )


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def memory_section(contents: Contents) -> Html:
    """What losses remember against the truth."""
    parts = [tag("h2", "Memory against the truth")]
    about = (
        "A loss with memory works with numbers that it remembers from earlier slates. Here they stand beside what the "
        "weights of the last checkpoint, without dropout, give on whole lists: the nearer to the diagonal, the better "
        "the memory keeps up. A sample of at most 200 training queries and 2,000 pairs."
    )
    if any(isinstance(group.memory, Memory) for group in contents.groups):
        parts.append(tag("p", about, class_="about"))
    figures = []
    for number, group in enumerate(contents.groups):
        if isinstance(group.memory, Missing):
            name = f"{group.label}: " if len(contents.groups) > 1 else ""
            parts.append(missing(Missing(name + group.memory.why)))
        else:
            figures += [_memory_figure(group.label, number, group.memory, one) for one in group.memory.tables]
    return tag("section", *parts, tag("div", *figures, class_="panels") if figures else "", id="memory")


def _memory_figure(label: str, number: int, memory: Memory, one: Remembered) -> Html:
    title = f"{label}: {one.name} against the {one.truth}"
    about = f"{memory.loss}, seed {memory.seed}, after step {memory.step:,}; {len(one.exact):,} rows"
    about += f", {one.unvisited:,} more not visited yet" if one.unvisited else ""
    about += (
        "; windows were random, and the truth is read in others, so some distance is due to that"
        if memory.moving
        else ""
    )
    caption = tag("figcaption", tag("h3", title), tag("span", about))
    if not one.exact:
        return tag(
            "figure", caption, tag("p", "Nothing of the sample was visited, or K is the whole list.", class_="note")
        )
    pairs = list(zip(one.exact, one.remembered, strict=True))
    marks = [Mark(x, y, f"{one.truth} {short(x)}\n{one.name} {short(y)}") for x, y in pairs]
    plot = scatter_plot(title, one.truth, one.name, Series(number, marks), log=one.is_log)
    agreement = table(f"{title}: agreement", ["Agreement", ""], [[name, short(x)] for name, x in one.figures().items()])
    rows = [[at + 1, short(x), short(y)] for at, (x, y) in enumerate(pairs)]
    return tag("figure", caption, plot, agreement, data_table(title, ["Row", one.truth, one.name], rows, words=0))


def queries_section(contents: Contents) -> Html:
    """The best and the worst queries."""
    parts = [tag("h2", "Best and worst queries")]
    for at, group in enumerate(contents.groups):
        found = group.extremes
        several = len(contents.groups) > 1
        if isinstance(found, Missing):
            parts.append(missing(Missing((f"{group.label}: " if several else "") + found.why)))
            continue
        body = _extremes(found)
        name = f"{group.label}, seed {found.seed}"
        parts.append(tag("details", tag("summary", name), body, open=at == 0) if several else body)
    about = (
        f"Of the {contents.split} split, among queries with a relevant item; equal ones by number. "
        "What was ranked first, with relevant items marked by their label, and where the relevant items went."
    )
    return tag("section", parts[0], tag("p", about, class_="about"), *parts[1:], id="queries")


def _extremes(found: Extremes) -> Html:
    best = [tag("h3", f"Best by {found.metric}"), *(_query(one) for one in found.best)]
    worst = [tag("h3", f"Worst by {found.metric}"), *(_query(one) for one in found.worst)]
    return tag("div", tag("div", *best), tag("div", *worst), class_="queries")


def _query(one: RankedQuery) -> Html:
    relevant = ", ".join(f"{item.item} at {item.rank:,g}" for item in one.relevant)
    more = one.num_relevant - len(one.relevant)
    relevant += f", and {more:,} more" if more else ""
    return tag(
        "article",
        tag("h4", tag("span", f"Query {one.query}"), tag("span", figure(one.value))),
        tag("ol", *(_item(item) for item in one.top)),
        tag("p", f"Relevant: {relevant}; of {one.list_size:,} items."),
        class_="query",
    )


def _item(item: RankedItem) -> Html:
    hit = tag("span", f"label {item.label:g}", class_="hit") if item.label > 0 else tag("span")
    return tag("li", tag("span", f"{item.rank:,g}"), tag("span", item.item), hit)
