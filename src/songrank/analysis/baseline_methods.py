"""Baseline models as methods beside finished runs: same data set, same evaluation."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from songrank.analysis.finished_runs import FinishedRun, Method, check_lists
from songrank.analysis.kept_baselines import measure_once
from songrank.baselines.evaluate import Measured
from songrank.core.errors import DataError
from songrank.data import Dataset, open_dataset
from songrank.io.source import Progress


def baseline_methods(
    names: Sequence[str],
    methods: Sequence[Method],
    split: str,
    metrics: Sequence[str],
    *,
    data: Path | None = None,
    progress: Progress | None = None,
) -> list[Method]:
    """Fit and evaluate these baseline models on every data set of the methods, whose current path is ``data``.

    Options are chosen by the validation metric of the first run on a data set, or by the first of ``metrics``.
    """
    first: dict[str, FinishedRun] = {}
    for run in (run for method in methods for run in method.runs):
        first.setdefault(run.lists_sha256, run)
    sets = [(run, _open_lists(run, split, data)) for run in first.values()]
    labels = [method.label for method in methods]
    found = []
    for name in dict.fromkeys(names):
        measured = tuple(_measure(name, run, dataset, split, metrics, progress) for run, dataset in sets)
        runs = tuple(_as_run(run, dataset, own) for (run, dataset), own in zip(sets, measured, strict=True))
        found.append(Method(name if name not in labels else f"{name} (baseline model)", runs, measured))
    return found


def _open_lists(run: FinishedRun, split: str, data: Path | None) -> Dataset:
    place = data if data is not None else Path(str(run.config.get("data", "")))
    if data is None and not (place / "dataset.json").exists():
        fix = f"pass the current path of the data set of {run.path} with --data, or leave out baseline models"
        raise DataError("is not a prepared data set", fix, file=str(place))
    dataset = open_dataset(place)
    check_lists(run, dataset, split)
    return dataset


def _measure(
    name: str, run: FinishedRun, dataset: Dataset, split: str, metrics: Sequence[str], progress: Progress | None
) -> Measured:
    validation, among = run.config.get("validation"), run.policies["candidates"]
    select = validation.get("metric") if isinstance(validation, dict) else None
    if among != "all" and not isinstance(among, int):
        fix = "baseline models rank all items or a number of sampled items"
        raise DataError(f"was evaluated with candidates {among}", fix, file=str(run.path))
    select = select if isinstance(select, str) else metrics[0]
    policies = {"ties": run.policies["ties"], "empty": run.policies["empty_policy"], "gain": run.policies["gain"]}
    return measure_once(
        name, dataset, split, select=select, metrics=metrics, candidates=among, progress=progress, **policies
    )


def _as_run(run: FinishedRun, dataset: Dataset, own: Measured) -> FinishedRun:
    """The results of a baseline model in the form of a run on the same lists."""
    config = {"model": {"name": own.name}, "loss": {"name": own.name}, "data": str(dataset.path), "seed": 0}
    metrics, per_query, empty = own.evaluation.values, own.evaluation.per_query, own.evaluation.num_empty
    return replace(run, path=dataset.path, config=config, metrics=metrics, per_query=per_query, empty=empty)
