"""Fitting and evaluation of baseline models; their options are chosen on validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from torch import Tensor

from songrank.baselines.base import Baseline
from songrank.baselines.binary_histories import Scores, histories
from songrank.baselines.ease import Ease
from songrank.baselines.ials import ImplicitALS, import_implicit
from songrank.baselines.popularity import Popularity
from songrank.core.errors import DataError, UserError, shown
from songrank.core.relevance import Relevance
from songrank.data import CatalogueSplit, Dataset
from songrank.io.source import Progress
from songrank.metrics import Evaluation, evaluate_catalogue, evaluate_sampled
from songrank.metrics.catalogue import some_queries

BASELINES: dict[str, type[Baseline]] = {"ease": Ease, "ials": ImplicitALS, "popularity": Popularity}


@dataclass(frozen=True, eq=False)
class Measured:
    """The evaluation of a baseline model on a data set.

    ``inputs`` are the splits of the users' interaction histories. ``options`` have the best ``validation`` value of
    the metric ``select``, unless they were given; they are empty if there is no choice.

    >>> import tempfile
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/demo", queries=50, items=60, pairs=600)
    >>> found = measure("ease", dataset, metrics="ndcg@10")
    >>> found.inputs, list(found.options), found.evaluation.num_queries
    (('train', 'validation'), ['regularisation'], 50)
    """

    name: str
    inputs: tuple[str, ...]
    options: dict[str, float]
    select: str
    validation: float | None
    evaluation: Evaluation


def check_baseline(name: str) -> None:
    """Raise unless a baseline model has this name and its dependencies are installed."""
    if name not in BASELINES:
        raise UserError(f"baseline model is {shown(name)}; expected one of {', '.join(BASELINES)}")
    if name == "ials":
        import_implicit()


def measure(
    name: str,
    dataset: Dataset,
    split: str = "test",
    *,
    select: str = "ndcg@10",
    metrics: str | Sequence[str] = ("ndcg@10", "ndcg@20", "ndcg@50"),
    candidates: int | str = "all",
    options: dict[str, float] | None = None,
    progress: Progress | None = None,
    **policies: Any,
) -> Measured:
    """Fit a baseline model to the training split, choose its options on validation, and evaluate it on a split.

    The history of a user is everything before the split: training items for validation, training and validation items
    for test. The model, for example B of EASE, is fitted to the training split only.

    Args:
        name: one of ``BASELINES``.
        dataset: data set of a recommendation task.
        split: ``"test"``, or ``"validation"``, on which the options are chosen.
        select: metric for the choice of options, over all items except the user's seen items.
        metrics: names of metrics with or without a cutoff.
        candidates: ``"all"``, or the number of sampled items to rank.
        options: options of the model, for example ``{"regularisation": 300}``; None to choose them on validation.
        progress: called with a description, the completed amount and the total.
        policies: ``ties``, ``empty`` and ``gain``, as for :func:`~songrank.metrics.evaluate_catalogue`.
    """
    check_baseline(name)
    if dataset.task != "recommendation":
        fix = "baseline models are for recommendation; leave them out"
        raise DataError(f"is a {dataset.task} data set", fix, file=str(dataset.path))
    if split == "train" or split not in dataset:
        others = ", ".join(name for name in dataset if name != "train") or "none"
        raise DataError(f"has no {split} split", f"it has {others}", file=str(dataset.path))
    inputs = tuple(dataset)[: tuple(dataset).index(split)]
    baseline = BASELINES[name](_splits(dataset, ("train",))[0])
    report = None if progress is None else partial(progress, f"{name}: {split}")
    try:
        if options is None:
            options, value, scores = _choose(name, baseline, dataset, select, progress, policies)
        else:
            value, scores = None, baseline.fit(**options)
        rows, targets = histories(*_splits(dataset, inputs)), dataset.relevance(split)

        def among(query: Tensor, item: Tensor) -> Tensor:
            return scores(rows, query).gather(1, item)

        if candidates == "all":
            found = evaluate_catalogue(partial(scores, rows), targets, metrics=metrics, progress=report, **policies)
        else:
            found = evaluate_sampled(among, targets, int(candidates), metrics=metrics, **policies)
    except UserError:
        raise
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None
    return Measured(name, inputs, options, select, value, found)


def _splits(dataset: Dataset, names: Sequence[str]) -> list[CatalogueSplit]:
    return [part for name in names if isinstance(part := dataset[name], CatalogueSplit)]


def _choose(
    name: str, baseline: Baseline, dataset: Dataset, select: str, progress: Progress | None, policies: dict[str, Any]
) -> tuple[dict[str, float], float | None, Scores]:
    """The best options on validation, their validation value, and the scoring function."""
    first, *others = baseline.grid
    if not others:
        return first, None, baseline.fit(**first)
    if "validation" not in dataset:
        fix = f"{name} needs it to choose its options; prepare the data set with one, or leave out {name}"
        raise DataError("has no validation split", fix, file=str(dataset.path))
    rows, targets = histories(*_splits(dataset, ("train",))), dataset.relevance("validation")
    part = targets if baseline.choice_queries is None else some_queries(targets, baseline.choice_queries)
    total, done = baseline.trials or len(baseline.grid), count()

    def value(scores: Scores, targets: Relevance = part) -> float:
        if progress is not None:
            progress(f"{name}: choosing options on validation", min(next(done), total), total)
        (found,) = evaluate_catalogue(partial(scores, rows), targets, metrics=select, **policies).values.values()
        return found

    options, scores = baseline.choose(value)
    return options, value(scores, targets), scores
