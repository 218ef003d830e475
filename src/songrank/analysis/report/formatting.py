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
    policies = run.policies
    among = policies["candidates"]
    if among == "all":
        first = _AMONG.get(task or "", "Whole lists are ranked.")
    else:
        first = (
            f"Ranked among {among} sampled candidates only: such figures are far higher than those among all items, "
            "and may order models otherwise."
        )
    return [
        first,
        _TIES.get(policies["ties"], f"Ties: {policies['ties']}."),
        _GAINS.get(policies["gain"], f"Gain of a label: {policies['gain']}."),
        f"{run.empty:,} of {run.queries:,} queries have no relevant item"
        + (f"; they {_EMPTY.get(policies['empty_policy'], policies['empty_policy'])}." if run.empty else "."),
    ]


def figure(value: float | None) -> str:
    """A metric to four places.

    >>> figure(0.20751), figure(float("nan")), figure(None)
    ('0.2075', '–', '–')
    """
    return "–" if value is None or math.isnan(value) else f"{value:.4f}"


def mean_sd(mean: float, sd: float | None) -> str:
    """A mean over seeds, and its standard deviation if there are several.

    >>> mean_sd(0.20751, 0.00123), mean_sd(0.20751, float("nan"))
    ('0.2075 ± 0.0012', '0.2075')
    """
    return figure(mean) + ("" if sd is None or math.isnan(sd) else f" ± {figure(sd)}")


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(0.012), signed(-0.00001)
    ('+0.0120', '+0.0000')
    """
    return "–" if math.isnan(value) else f"{value:+z.4f}".replace("-", "−")


def short(value: float) -> str:
    """Any number in four digits.

    >>> short(0.000123456), short(1234.5)
    ('0.0001235', '1234')
    """
    return "–" if math.isnan(value) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(10.83), duration(4000)
    ('11 s', '1 h 07 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
