"""Yardsticks as methods beside finished runs: on the runs' own data, evaluated as they were."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from songrank.analysis.finished_runs import FinishedRun, Method
from songrank.baselines.evaluate import YARDSTICKS, Measured, check_yardstick, measure
from songrank.core.errors import DataError
from songrank.data import Dataset, open_dataset
from songrank.io.source import Progress
from songrank.training.run_directory import lists_fingerprint


@dataclass(frozen=True, eq=False)
class YardstickMethod(Method):
    """A yardstick on each data set of the runs that it stands beside; it has no folder."""

    measured: tuple[Measured, ...]
    """In the order of ``runs``."""

    @property
    def places(self) -> list[Path]:
        """None."""
        return []

    @property
    def deterministic(self) -> bool:
        """Whether another seed would change nothing."""
        return YARDSTICKS[self.measured[0].name].deterministic

    def as_dict(self) -> dict[str, Any]:
        """What was chosen on each data set, and what histories were read from, in plain values."""
        return {
            "inputs": list(self.measured[0].inputs),
            "chosen": [
                {"data": str(run.path), "options": own.options, "metric": own.select, "validation": own.validation}
                for run, own in zip(self.runs, self.measured, strict=True)
            ],
        }


def yardstick_methods(
    names: Sequence[str],
    methods: Sequence[Method],
    split: str,
    metrics: Sequence[str],
    *,
    data: Path | None = None,
    progress: Progress | None = None,
) -> list[YardstickMethod]:
    """Measure these yardsticks on every data set of the methods.

    Options are chosen by the validation metric of the first run on a data set, where its recipe names one, else by
    the first of ``metrics``.

    Args:
        names: of yardsticks; one that is named twice counts once.
        methods: from :func:`~songrank.analysis.finished_runs.group_runs`.
        split: that the runs were evaluated on.
        metrics: to measure.
        data: where the data set is now, if it is not where the runs say.
        progress: told what is done, how far it is, and how far it goes.

    """
    for name in names:
        check_yardstick(name)
    first: dict[str, FinishedRun] = {}
    for method in methods:
        for run in method.runs:
            first.setdefault(run.lists_sha256, run)
    sets = [(run, _open_lists(run, split, data)) for run in first.values()]
    labels = [method.label for method in methods]
    found = []
    for name in dict.fromkeys(names):
        pairs = [_measure(name, run, dataset, split, metrics, progress) for run, dataset in sets]
        label = name if name not in labels else f"{name} (yardstick)"
        found.append(YardstickMethod(label, tuple(run for run, _ in pairs), tuple(one for _, one in pairs)))
    return found


def _open_lists(run: FinishedRun, split: str, data: Path | None) -> Dataset:
    place = data if data is not None else Path(str(run.config.get("data", "")))
    if data is None and not (place / "dataset.json").exists():
        fix = f"say with --data where the data set of {run.path} is now, or leave yardsticks out"
        raise DataError("is no prepared data set", fix, file=str(place))
    dataset = open_dataset(place)
    if split not in dataset or lists_fingerprint(dataset, split) != run.lists_sha256:
        fix = "name the data set that it was evaluated on with --data"
        raise DataError(f"holds other lists than {run.path} was evaluated on", fix, file=str(place))
    return dataset


def _measure(
    name: str, run: FinishedRun, dataset: Dataset, split: str, metrics: Sequence[str], progress: Progress | None
) -> tuple[FinishedRun, Measured]:
    validation = run.config.get("validation")
    select = validation.get("metric") if isinstance(validation, dict) else None
    policies = {"ties": run.policies["ties"], "empty": run.policies["empty_policy"], "gain": run.policies["gain"]}
    among = run.policies["candidates"]
    if among != "all" and not isinstance(among, int):
        raise DataError(
            f"was evaluated among {among}", "yardsticks rank among all items, or a number", file=str(run.path)
        )
    measured = measure(
        name,
        dataset,
        split,
        select=select if isinstance(select, str) else metrics[0],
        metrics=metrics,
        candidates=among,
        progress=progress,
        **policies,
    )
    result = measured.evaluation
    own = FinishedRun(
        path=dataset.path,
        config={"model": {"name": name}, "loss": {"name": name}, "data": str(dataset.path), "seed": 0},
        metrics=result.values,
        per_query=result.per_query,
        queries=run.queries,
        empty=result.num_empty,
        policies=run.policies,
        lists_sha256=run.lists_sha256,
    )
    return own, measured
