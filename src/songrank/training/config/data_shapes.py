"""Shapes of data sets that recipes have changes for, in their section ``shapes``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError
from songrank.io.json_files import read_json

FEW_USERS = 1_000
SHORT_HISTORY = 20
FEW_PAIRS = 10_000
SHAPES: dict[str, Callable[[int, float], bool]] = {
    "few-users": lambda users, median: users <= FEW_USERS,
    "short-histories": lambda users, median: median <= SHORT_HISTORY,
    "few-pairs": lambda users, median: users * median <= FEW_PAIRS,
}
"""Whether a data set has a shape, by the number of training users and the median number of their training items."""


def data_shapes(data: Any) -> list[str]:
    """The shapes of a prepared data set for recommendation; none if it cannot be read, which training reports.

    >>> data_shapes("nowhere")
    []
    """
    try:
        info = read_json(Path(str(data)) / "dataset.json")
        figures = info["splits"]["train"]
        users, median = int(figures["queries_with_pairs"]), float(figures["relevant_per_query"]["median"])
        if info["task"] != "recommendation":
            return []
    except (DataError, KeyError, TypeError, ValueError):
        return []
    return [name for name, has in SHAPES.items() if has(users, median)]
