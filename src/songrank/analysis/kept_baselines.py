"""Results of baseline models, kept beside the data set, so that each is fitted once per data set."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank import __version__
from songrank.baselines import Measured, measure
from songrank.core.errors import DataError
from songrank.data import Dataset
from songrank.io.arrays import read_arrays
from songrank.io.files import sha256, write_whole
from songrank.io.json_files import plain
from songrank.io.source import Progress
from songrank.metrics import Evaluation

_TOLD = "told"  # the array with everything but the values per query, as JSON


def measure_once(
    name: str,
    dataset: Dataset,
    split: str,
    *,
    select: str,
    metrics: Sequence[str],
    candidates: int | str = "all",
    progress: Progress | None = None,
    **policies: str,
) -> Measured:
    """:func:`songrank.baselines.measure`, with the result of an earlier call for the same data set if there is one.

    Results are files ``baseline-….safetensors`` in the directory of the data set; preparing it again removes them.
    Nothing is kept if the directory cannot be written.

    >>> import tempfile
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/demo", queries=50, items=60, pairs=600)
    >>> found = [measure_once("ease", dataset, "test", select="ndcg@10", metrics=["mrr"]) for _ in range(2)]
    >>> found[0].evaluation.values == found[1].evaluation.values
    True
    """
    told: dict[str, Any] = {"select": select, "candidates": candidates, **policies}
    data = sha256((dataset.path / "dataset.json").read_bytes())
    key = sha256(json.dumps([__version__, name, split, data, told], sort_keys=True))[:16]
    place = dataset.path / f"baseline-{name}-{split}-{key}.safetensors"
    kept = _read(place)
    if kept is not None and set(metrics) <= kept.evaluation.values.keys():
        return _with_metrics(kept, metrics)
    wanted = list(dict.fromkeys([*metrics, *(() if kept is None else kept.evaluation.values)]))
    options = None if kept is None or kept.validation is None else kept.options  # chosen before, on validation
    found = measure(name, dataset, split, metrics=wanted, options=options, progress=progress, **told)
    if kept is not None and options is not None:
        found = Measured(name, found.inputs, options, select, kept.validation, found.evaluation)
    with contextlib.suppress(OSError, DataError):
        write_whole(place, _content(found))
    return _with_metrics(found, metrics)


def _content(found: Measured) -> bytes:
    from safetensors.torch import save

    told = {"options": found.options, "inputs": found.inputs, "select": found.select, "validation": found.validation}
    evaluation = found.evaluation
    told |= {"name": found.name, "values": evaluation.values, "queries": evaluation.num_queries}
    told |= {"empty": evaluation.num_empty, "ties": evaluation.ties, "empty_policy": evaluation.empty}
    told |= {"gain": str(evaluation.gain), "candidates": evaluation.candidates}
    text = torch.frombuffer(bytearray(json.dumps(plain(told)).encode()), dtype=torch.uint8)
    return save({_TOLD: text, **{name: value.contiguous() for name, value in evaluation.per_query.items()}})


def _read(place: Path) -> Measured | None:
    """A kept result; None if it is missing or damaged."""
    try:
        arrays: Mapping[str, Tensor] = read_arrays(place)
        told = json.loads(bytes(arrays[_TOLD].tolist()))
        values = {name: float("nan") if value is None else float(value) for name, value in told["values"].items()}
        per_query = {name: arrays[name].clone() for name in values}
        policies = told["ties"], told["empty_policy"], told["gain"], told["candidates"]
        evaluation = Evaluation(values, per_query, told["queries"], told["empty"], *policies)
        inputs, options = tuple(told["inputs"]), dict(told["options"])
        return Measured(told["name"], inputs, options, told["select"], told["validation"], evaluation)
    except (DataError, KeyError, TypeError, ValueError):
        return None


def _with_metrics(found: Measured, metrics: Sequence[str]) -> Measured:
    whole = found.evaluation
    values = {name: whole.values[name] for name in metrics}
    per_query = {name: whole.per_query[name] for name in metrics}
    policies = whole.ties, whole.empty, whole.gain, whole.candidates
    evaluation = Evaluation(values, per_query, whole.num_queries, whole.num_empty, *policies)
    return Measured(found.name, found.inputs, found.options, found.select, found.validation, evaluation)
