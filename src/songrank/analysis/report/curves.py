"""Convergence: validation metrics and objectives by epoch, over the seeds of a method."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from songrank.core.errors import DataError
from songrank.core.limits import HISTORY_BYTES
from songrank.io.files import check_sha256, read_whole
from songrank.io.json_files import read_json
from songrank.losses.base import Traits
from songrank.losses.registry import LOSSES
from songrank.training.trainer.closed_form import SEARCH, STAGE
from songrank.training.trainer.loop import validation_name

WARM_UP = "warm-up"
SECONDS = {
    "epoch_seconds": ("Seconds per epoch", "training, without validation"),
    "evaluation_seconds": ("Seconds per validation", "evaluation of the validation split"),
}
"""Entries of ``run.json`` with a number per line of the history: title and description of their panels."""
History = list[dict[str, Any]]
Methods = Mapping[str, Sequence[tuple[Mapping[str, Any], History]]]  # configuration and history of each run, by label


@dataclass(frozen=True)
class Point:
    """An epoch, counted over both stages: mean and standard deviation over seeds, NaN for a single seed."""

    epoch: int
    stage: str
    mean: float
    sd: float
    seeds: int


@dataclass(frozen=True)
class Curve:
    """The curve of a method, and the epochs of the checkpoints that its runs kept."""

    label: str
    points: tuple[Point, ...]
    chosen: tuple[int, ...]


@dataclass(frozen=True)
class Panel:
    """Curves of one quantity; ``warm_up`` is the number of warm-up epochs, None if it differs between runs."""

    title: str
    what: str
    about: str
    curves: tuple[Curve, ...]
    warm_up: int | None


def read_history(path: Path) -> History:
    """The lines of ``metrics.jsonl``, verified if the run has ended; an incomplete line of a killed one is skipped."""
    file = path / "metrics.jsonl"
    notes = read_json(path / "run.json") if (path / "run.json").exists() else {}
    if "history_sha256" in notes:
        check_sha256(file, notes["history_sha256"], "checksum mismatch with run.json", "the run has no curves")
    try:
        text = read_whole(file, HISTORY_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "the run has no curves", file=str(file)) from None
    lines: History = []
    for line in text.splitlines():
        with suppress(ValueError):
            lines.append(json.loads(line))
    lines = [line for line in lines if isinstance(line, dict) and "stage" in line]
    if not lines:
        raise DataError("has no epochs", "the run has no curves", file=str(file))
    for key in SECONDS:
        values = notes.get(key)
        if isinstance(values, list) and len(values) == len(lines):
            lines = [{**line, key: value} if value else line for line, value in zip(lines, values, strict=True)]
    return lines


def chosen_epoch(history: Sequence[Mapping[str, Any]], watched: str, keep: str = "last") -> int:
    """The epoch, counted over both stages, of the kept checkpoint: the first best of the last stage, or of all.

    Without validation it is the last epoch.
    """
    last, lines = history[-1]["stage"], list(enumerate(history, 1))
    known = {at: line[watched] for at, line in lines if keep == "all" or line["stage"] == last if _has(line, watched)}
    return max(known, key=lambda at: (known[at], -at), default=len(history))


def make_panels(methods: Methods) -> list[Panel]:
    """Panels of the validation metrics, then of the objective of each stage and loss, then of seconds."""
    runs = [run for own in methods.values() for run in own]
    lengths = {sum(line["stage"] == WARM_UP for line in history) for _, history in runs}
    warm_up = lengths.pop() if len(lengths) == 1 else None
    watched = dict(_validation(config) for config, _ in runs)
    panels = []
    for name, among in watched.items():
        about = "complete lists" if among == "all" else "sampled items; values are higher than over all items"
        panels.append(Panel(name.capitalize(), name, about, _curves(methods, name), warm_up))
    parts = dict.fromkeys((line["stage"], _loss(config, line["stage"])) for config, history in runs for line in history)
    for stage, loss in sorted(parts, key=lambda part: part[0] != WARM_UP):
        traits = LOSSES[loss].traits if loss in LOSSES else Traits()
        curves = _curves(methods, "objective", (stage, loss))
        panels.append(Panel(f"Objective of {loss} in {stage}", "objective", traits.objective, curves, warm_up))
    for key, (title, about) in SECONDS.items():
        panels.append(Panel(title, "seconds", about, _curves(methods, key), warm_up))
    return [panel for panel in panels if panel.curves]


def _curves(methods: Methods, key: str, part: tuple[str, str] | None = None) -> tuple[Curve, ...]:
    """A quantity of each method, over all epochs or over the epochs of a stage with a loss."""
    curves = []
    for label, runs in methods.items():
        values: dict[int, list[float]] = {}
        stages: dict[int, str] = {}
        for config, history in runs:
            for epoch, line in enumerate(history, 1):
                if _has(line, key) and part in (None, (line["stage"], _loss(config, line["stage"]))):
                    values.setdefault(epoch, []).append(float(line[key]))
                    stages.setdefault(epoch, line["stage"])
        points = [
            Point(epoch, stages[epoch], fmean(own), stdev(own) if len(own) > 1 else math.nan, len(own))
            for epoch, own in sorted(values.items())
        ]
        if points:
            chosen = {chosen_epoch(history, _validation(config)[0], _kept(config)) for config, history in runs}
            curves.append(Curve(label, tuple(points), tuple(sorted(chosen))))
    return tuple(curves)


def _has(line: Mapping[str, Any], key: str) -> bool:
    return isinstance(line.get(key), float | int)


def _validation(config: Mapping[str, Any]) -> tuple[str, int | str]:
    """The name of the validation metric of this run, and the number of ranked items."""
    section = config.get("validation") or {}
    among = section.get("candidates", "all")
    return validation_name(section.get("metric", ""), among), among


def _kept(config: Mapping[str, Any]) -> str:
    """Stages whose best checkpoint the run kept."""
    return str((config.get("validation") or {}).get("keep", "last"))


def _loss(config: Mapping[str, Any], stage: str) -> str:
    if stage in (STAGE, SEARCH):
        return "the model"
    section = config.get("warm_up", {}) if stage == WARM_UP else config
    return str(section.get("loss", {}).get("name", "a loss"))
