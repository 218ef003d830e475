"""Formatting of numbers and evaluation policies."""

import math

from songrank.analysis.finished_runs import FinishedRun
from songrank.core.text import UNITS, counted

_TIES = {
    "pessimistic": "Tied items take the last ranks of their group, so that constant scores get no credit.",
    "average": "Metrics are averaged over all orders of tied items.",
    "stable": "Tied items keep the order of the data.",
}
_EMPTY = {"skip": "skipped in means", "zero": "counted as 0", "one": "counted as 1"}
_GAINS = {"exp2": "The gain of a label y is 2^y − 1.", "linear": "The gain of a label y is y."}
_AMONG = {
    "recommendation": "All items except the user's seen items are ranked.",
    "labelling": "All labels are ranked.",
    "search": "The complete list of each query is ranked.",
}


def policy_sentences(run: FinishedRun, task: str | None) -> list[str]:
    """The policies of an evaluation in sentences."""
    ties, gain, empty, among = (run.policies[key] for key in ("ties", "gain", "empty_policy", "candidates"))
    sampled = (
        f"Only {among} sampled candidates are ranked: values are higher than over all items, and the order of models "
        "can differ."
    )
    return [
        _AMONG.get(task or "", "Complete lists are ranked.") if among == "all" else sampled,
        _TIES.get(ties, f"Ties: {ties}."),
        _GAINS.get(gain, f"Gain of a label: {gain}."),
        f"{run.empty:,} of {counted(run.queries, UNITS.get(task or '', 'queries'))} without relevant items"
        + (f" ({_EMPTY.get(empty, empty)})." if run.empty else "."),
    ]


def figure(value: float | None, form: str = ".4f") -> str:
    """A metric with four decimals or in another format; a dash for NaN."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def mean_sd(mean: float, sd: float | None) -> str:
    """A mean over seeds, with the standard deviation for several seeds."""
    return figure(mean) + ("" if sd is None or math.isnan(sd) else f" ± {figure(sd)}")


def signed(value: float) -> str:
    """A difference with its sign."""
    return figure(value, "+z.4f").replace("-", "−")


def short(value: float) -> str:
    """A number with four significant digits."""
    return figure(value, ".4g")


def duration(seconds: float) -> str:
    """A duration, for example ``11 s`` or ``1 h 07 min``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
