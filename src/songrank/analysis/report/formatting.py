"""Numbers and policies as a reader wants them."""

import math

from songrank.analysis.finished_runs import FinishedRun

_TIES = {
    "pessimistic": "Items with equal scores stand at the end of their group, so a constant scorer never looks good.",
    "average": "Items with equal scores get the mean over all orders of their group.",
    "stable": "Items with equal scores stand in the order in which the data has them.",
}
_EMPTY = {"skip": "are left out of the means", "zero": "count as 0", "one": "count as 1"}
_GAINS = {"exp2": "A label y is worth 2^y − 1.", "linear": "A label y is worth y."}
_AMONG = {
    "recommendation": "All items that a user has not seen before are ranked.",
    "labelling": "All labels are ranked.",
    "search": "Each query's full list is ranked.",
}


def policy_sentences(run: FinishedRun, task: str | None) -> list[str]:
    """How the figures of an evaluation were computed."""
    ties, gain, empty, among = (run.policies[key] for key in ("ties", "gain", "empty_policy", "candidates"))
    sampled = (
        f"Ranked among {among} sampled candidates only: such figures are far higher than those among all items, "
        "and may order models otherwise."
    )
    return [
        _AMONG.get(task or "", "Whole lists are ranked.") if among == "all" else sampled,
        _TIES.get(ties, f"Ties: {ties}."),
        _GAINS.get(gain, f"Gain of a label: {gain}."),
        f"{run.empty:,} of {run.queries:,} queries have no relevant item"
        + (f"; they {_EMPTY.get(empty, empty)}." if run.empty else "."),
    ]


def figure(value: float | None, form: str = ".4f") -> str:
    """A metric to four places, or a number in another form; a dash for NaN."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def mean_sd(mean: float, sd: float | None) -> str:
    """A mean over seeds, and its standard deviation if there are several."""
    return figure(mean) + ("" if sd is None or math.isnan(sd) else f" ± {figure(sd)}")


def signed(value: float) -> str:
    """A difference with its sign."""
    return figure(value, "+z.4f").replace("-", "−")


def short(value: float) -> str:
    """Any number in four digits."""
    return figure(value, ".4g")


def duration(seconds: float) -> str:
    """Seconds as people say them: ``11 s``, ``1 h 07 min``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
