"""Sizes of synthetic data: named shapes, mostly of published data sets, and changes to them."""

from dataclasses import dataclass, replace
from typing import Any

from songrank.core.errors import DataError

MAX_ITEMS = 1 << 26  # an item, a row of a block and the index of a draw share a 64-bit number


@dataclass(frozen=True)
class Plan:
    """All parameters of a synthetic data set."""

    task: str  # recommendation, search or labelling
    queries: int  # users, search queries or texts
    items: int  # items, total number of documents, or labels
    pairs: int = 0  # relevant pairs; 0 for search, where they follow from the labels
    features: int = 0  # features per document, or size of the vocabulary
    words: int = 0  # mean number of distinct words per text
    fewest: int = 1  # minimum number of pairs or documents per query
    most: int = 0  # their maximum; 0 for the largest possible value
    parts: tuple[int, int, int] = (60, 20, 20)  # relative sizes of train, validation and test; not for recommendation
    holdout: int = 1  # recommendation: last pairs per user for test, and as many before for validation
    noise: float = 0.2  # from 0, only preferences, to 1, only chance
    seed: int = 0


SHAPES = {
    "recommendation": {
        "demo": Plan("recommendation", 1_000, 1_000, 40_000, fewest=10),
        "movielens-100k": Plan("recommendation", 943, 1_682, 100_000, fewest=20),
        "movielens-1m": Plan("recommendation", 6_040, 3_706, 1_000_209, fewest=20),
        "movielens-20m": Plan("recommendation", 138_493, 26_744, 20_000_263, fewest=20),
        "netflix": Plan("recommendation", 236_117, 17_770, 89_973_534, fewest=100),
    },
    "search": {
        "demo": Plan("search", 500, 10_000, features=32, most=100),
        "mslr-web10k": Plan("search", 10_000, 1_200_192, features=136, most=908),
        "mslr-web30k": Plan("search", 31_531, 3_771_125, features=136, most=1_245, parts=(18_919, 6_306, 6_306)),
        "yahoo-ltr": Plan("search", 29_921, 709_877, features=699, most=135, parts=(19_944, 2_994, 6_983)),
    },
    "labelling": {
        "demo": Plan("labelling", 2_000, 200, 10_000, features=1_000, words=60),
        "eurlex-4k": Plan("labelling", 19_348, 3_993, 102_738, features=5_000, words=236, parts=(13_985, 1_554, 3_809)),
        "wiki10-31k": Plan(
            "labelling", 20_762, 30_938, 387_004, features=101_938, words=673, parts=(12_731, 1_415, 6_616)
        ),
    },
}
"""Counts are those of the paper or the files. The counts of MSLR-WEB10K, the numbers of features and words, the shares
of labels and the distributions of lengths were not checked against a source. For data sets without a validation split,
a tenth is used."""

_NUMBERS = {
    "recommendation": {"queries", "items", "pairs", "holdout", "noise", "seed"},
    "search": {"queries", "items", "features", "noise", "seed"},
    "labelling": {"queries", "items", "pairs", "features", "words", "noise", "seed"},
}


def make_plan(task: str | None = None, shape: str | None = None, **changes: Any) -> Plan:
    """A named shape with changes; if queries change, pairs or documents scale with them unless they are given.

    >>> make_plan(queries=50, items=200).pairs
    2000
    >>> make_plan(shape="mslr-web30k").task
    'search'
    >>> make_plan("search", pairs=100)
    Traceback (most recent call last):
    songrank.core.errors.DataError: pairs is 100; not an option of search: leave it out
    """
    shape = "demo" if shape is None else shape
    base = next((SHAPES[name][shape] for name in SHAPES if shape in SHAPES[name] and task in (None, name)), None)
    if base is None:
        known = SHAPES[task] if task else {name for shapes in SHAPES.values() for name in shapes}
        raise DataError(f"shape is {shape!r}", f"{task or 'synthetic'} has " + ", ".join(sorted(known)))
    given = {name: value for name, value in changes.items() if value is not None}
    for name in given:
        if name not in _NUMBERS[base.task]:
            raise DataError(f"{name} is {given[name]}", f"not an option of {base.task}: leave it out")
    if "queries" in given:
        follows = _total(base)
        given.setdefault(follows, round(getattr(base, follows) * given["queries"] / base.queries))
    return _checked(_bounded(replace(base, **given)))


def _total(plan: Plan) -> str:
    """The sum of the lengths of all queries."""
    return "items" if plan.task == "search" else "pairs"


def _bounded(plan: Plan) -> Plan:
    """The minimum and maximum per query, adjusted if those of the shape do not fit the numbers."""
    total = getattr(plan, _total(plan))
    mean, room = total / plan.queries, total if plan.task == "search" else plan.items
    fewest = min(plan.fewest, int(mean) // 2 + 1)
    if plan.task == "recommendation":
        fewest = max(fewest, 2 * plan.holdout + 1)
    # An active user has at most half of the catalogue, unless the number of pairs requires more.
    most = plan.most or max(plan.items // 2, int(2 * mean) + 1)
    return replace(plan, fewest=fewest, most=min(max(most, int(mean) + 1, fewest), room))


def _checked(plan: Plan) -> Plan:
    name = _total(plan)
    total, low, high = getattr(plan, name), plan.queries * plan.fewest, plan.queries * plan.most
    fits = f"{plan.queries:,} queries"
    if plan.task != "search":
        low, fits = max(low, plan.items), f"{fits} and {plan.items:,} items"
    if plan.queries < 6:
        raise DataError(f"queries is {plan.queries}", "expected at least 6, two for each of three splits")
    if plan.items > MAX_ITEMS or plan.features > MAX_ITEMS or total >= 1 << 31:
        what = f"{fits}, {plan.features:,} features and {total:,} {name}"
        raise DataError(what, "expected fewer: the array would be too large")
    if not low <= total <= high:
        raise DataError(f"{name} is {total:,}", f"expected {low:,} to {high:,} for {fits}")
    if plan.task == "labelling" and not plan.features <= plan.words * plan.queries <= plan.queries * plan.features // 2:
        least, most = -(-plan.features // plan.queries), plan.features // 2
        raise DataError(f"words is {plan.words:,}", f"expected {least:,} to {most:,} for {plan.features:,} features")
    return plan
