"""Convergence: what was watched in each epoch, over the seeds of a method."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from songrank.core.errors import DataError

WARM_UP = "warm-up"
_OBJECTIVES = {
    "song": "estimated NDCG of the slates",
    "k-song": "estimated top-K NDCG of the slates",
    "faster-song": "estimated NDCG of the slates",
    "faster-k-song": "estimated top-K NDCG of the slates",
    "listwise-ce": "estimated −ln likelihood of a relevant item",
}


@dataclass(frozen=True)
class Point:
    """One epoch of a method: mean and standard deviation over its seeds, NaN with one."""

    epoch: int
    """Counted over both stages."""
    stage: str
    mean: float
    sd: float
    seeds: int


@dataclass(frozen=True)
class Curve:
    """One method's course, and the epochs whose weights are its runs' results."""

    label: str
    points: tuple[Point, ...]
    chosen: tuple[int, ...]


@dataclass(frozen=True)
class Panel:
    """Curves of one quantity."""

    title: str
    what: str
    """The quantity, in a few words."""
    about: str
    """What to bear in mind."""
    curves: tuple[Curve, ...]
    warm_up: int | None
    """Epochs of the warm-up; None where the runs differ in it."""


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's ``metrics.jsonl``; one that a killed process did not finish is left out."""
    file = path / "metrics.jsonl"
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "the run has no curves", file=str(file)) from None
    lines = []
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "stage" in found:
            lines.append(found)
    if not lines:
        raise DataError("holds no epoch", "the run has no curves", file=str(file))
    return lines


def chosen_epoch(history: Sequence[Mapping[str, Any]]) -> int:
    """The epoch, counted over both stages, whose weights a run results in: the first best of the last stage.

    Without validation it is the last one.

    >>> chosen_epoch([{"stage": "fine-tuning", "validation mrr": value} for value in (0.1, 0.3, 0.3, 0.2)])
    2
    >>> chosen_epoch([{"stage": "fine-tuning"}, {"stage": "fine-tuning"}])
    2
    """
    last = history[-1]["stage"]
    name = _validation_name(history)
    looks = [
        (at + 1, line[name])
        for at, line in enumerate(history)
        if line["stage"] == last and isinstance(line.get(name), float | int)
    ]
    return max(looks, key=lambda look: (look[1], -look[0]))[0] if looks else len(history)


def make_panels(methods: Sequence[tuple[str, Sequence[tuple[Mapping[str, Any], list[dict[str, Any]]]]]]) -> list[Panel]:
    """What was watched on validation, then the objective of each stage and loss.

    Args:
        methods: label, and for each of its runs the configuration and the history.

    """
    everything = [history for _, runs in methods for _, history in runs]
    lengths = {sum(line["stage"] == WARM_UP for line in history) for history in everything}
    warm_up = lengths.pop() if len(lengths) == 1 else None
    names = dict.fromkeys(name for history in everything if (name := _validation_name(history)))
    panels = [
        Panel(name.capitalize(), name, _caution(name), _curves(methods, name, None, None), warm_up) for name in names
    ]
    stages = dict.fromkeys(
        (line["stage"], _loss(config, line["stage"]))
        for _, runs in methods
        for config, history in runs
        for line in history
    )
    for stage, loss in sorted(stages, key=lambda pair: pair[0] != WARM_UP):
        what = _OBJECTIVES.get(loss, "the loss itself")
        curves = _curves(methods, "objective", stage, loss)
        if curves:
            panels.append(Panel(f"Objective of {loss} in {stage}", "objective", what, curves, warm_up))
    return panels


def _caution(name: str) -> str:
    """A validation figure among sampled candidates has it in its name (``training.loop.validation_name``)."""
    return "far higher than among all items" if name.endswith(" sampled") else "whole lists are ranked"


def _curves(
    methods: Sequence[tuple[str, Sequence[tuple[Mapping[str, Any], list[dict[str, Any]]]]]],
    key: str,
    stage: str | None,
    loss: str | None,
) -> tuple[Curve, ...]:
    curves = []
    for label, runs in methods:
        values: dict[int, list[tuple[str, float]]] = {}
        chosen = []
        for config, history in runs:
            for at, line in enumerate(history):
                wanted = stage is None or (line["stage"] == stage and _loss(config, stage) == loss)
                if wanted and isinstance(line.get(key), float | int):
                    values.setdefault(at + 1, []).append((line["stage"], float(line[key])))
            chosen.append(chosen_epoch(history))
        points = [_point(epoch, found) for epoch, found in sorted(values.items())]
        if points:
            curves.append(Curve(label, tuple(points), tuple(sorted(set(chosen)))))
    return tuple(curves)


def _point(epoch: int, found: Sequence[tuple[str, float]]) -> Point:
    values = [value for _, value in found]
    return Point(epoch, found[0][0], fmean(values), stdev(values) if len(values) > 1 else math.nan, len(values))


def _validation_name(history: Sequence[Mapping[str, Any]]) -> str:
    return next((key for line in history for key in line if key.startswith("validation ")), "")


def _loss(config: Mapping[str, Any], stage: str) -> str:
    section = config.get("warm_up", {}) if stage == WARM_UP else config
    return str(section.get("loss", {}).get("name", "a loss"))
