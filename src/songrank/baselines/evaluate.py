"""A yardstick on a data set: its options chosen on validation, its figures as those of a run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from torch import Tensor

from songrank.baselines.binary_histories import histories
from songrank.baselines.ease import Ease
from songrank.baselines.ials import ImplicitALS, import_implicit
from songrank.baselines.popularity import Popularity
from songrank.core.errors import DataError, UserError, shown
from songrank.core.relevance import Relevance
from songrank.data import CatalogueSplit, Dataset
from songrank.io.source import Progress
from songrank.metrics import Evaluation, evaluate_catalogue, evaluate_sampled

Scores = Callable[[Relevance, Tensor], Tensor]
"""Scores [b, num_items] of queries [b], given the histories of all."""


class Yardstick(Protocol):
    """A recommender that is fitted to training at once."""

    grid: tuple[dict[str, float], ...]
    """Options of ``fit`` to choose from."""
    deterministic: bool
    """Whether no seed has a part in it."""

    def __init__(self, train: CatalogueSplit) -> None: ...

    @property
    def fit(self) -> Callable[..., Scores]:
        """A function of the options that gives the function of the scores."""
        ...


YARDSTICKS: dict[str, type[Yardstick]] = {"ease": Ease, "ials": ImplicitALS, "popularity": Popularity}


@dataclass(frozen=True, eq=False)
class Measured:
    """What a yardstick is worth on a data set.

    >>> import tempfile
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/demo", queries=50, items=60, pairs=600)
    >>> found = measure("ease", dataset, metrics="ndcg@10")
    >>> found.inputs, list(found.options)
    (('train', 'validation'), ['regularisation'])
    >>> found.evaluation.num_queries
    50
    """

    name: str
    inputs: tuple[str, ...]
    """Splits that a query's history was read from."""
    options: dict[str, float]
    """Those chosen on validation; none where there was nothing to choose."""
    select: str
    """The metric that they were chosen by."""
    validation: float | None
    """Its value on validation with these options."""
    evaluation: Evaluation


def check_yardstick(name: str) -> None:
    """Raise unless there is a yardstick of this name and what it needs is installed.

    >>> check_yardstick("easy")
    Traceback (most recent call last):
    songrank.core.errors.UserError: yardstick is 'easy'; expected one of ease, ials, popularity
    """
    if name not in YARDSTICKS:
        raise UserError(f"yardstick is {shown(name)}; expected one of {', '.join(YARDSTICKS)}")
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
    progress: Progress | None = None,
    **policies: Any,
) -> Measured:
    """Fit a yardstick to training, choose its options on validation, and evaluate it on a split.

    A query's history is all that came before: its items of training for validation, those of training and validation
    for test. What is fitted, such as B of EASE, is fitted to training alone.

    Args:
        name: one of ``YARDSTICKS``.
        dataset: of a recommendation task.
        split: ``"test"``, or ``"validation"``, on which the options were chosen.
        select: metric by which they are chosen, among all items of the catalogue that a query has not met.
        metrics: names with or without a cutoff.
        candidates: ``"all"``, or how many sampled items to rank among, as a run was evaluated.
        progress: told what is done, how far it is, and how far it goes.
        policies: ``ties``, ``empty`` and ``gain``, as for :func:`~songrank.metrics.evaluate_catalogue`.

    """
    check_yardstick(name)
    inputs = _inputs(dataset, split)
    yardstick = YARDSTICKS[name](_splits(dataset, ("train",))[0])
    try:
        options, value, scores = _choose(name, yardstick, dataset, select, progress, policies)
        rows, targets = histories(*_splits(dataset, inputs)), dataset.relevance(split)
        report = None if progress is None else lambda done, total: progress(f"{name}: {split}", done, total)
        if candidates == "all":
            found = evaluate_catalogue(partial(scores, rows), targets, metrics=metrics, progress=report, **policies)
        else:
            found = evaluate_sampled(
                lambda query, item: scores(rows, query).gather(1, item),
                targets,
                int(candidates),
                metrics=metrics,
                **policies,
            )
    except UserError:
        raise
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None
    return Measured(name, inputs, options, select, value, found)


def _inputs(dataset: Dataset, split: str) -> tuple[str, ...]:
    if dataset.task != "recommendation":
        fix = "yardsticks are for recommendation: leave them out"
        raise DataError(f"is a {dataset.task} data set", fix, file=str(dataset.path))
    if split == "train" or split not in dataset:
        others = ", ".join(name for name in dataset if name != "train") or "none"
        raise DataError(f"has no {split} split to measure on", f"it has {others}", file=str(dataset.path))
    return tuple(dataset)[: tuple(dataset).index(split)]


def _splits(dataset: Dataset, names: Sequence[str]) -> list[CatalogueSplit]:
    return [part for name in names if isinstance(part := dataset[name], CatalogueSplit)]


def _choose(
    name: str, yardstick: Yardstick, dataset: Dataset, select: str, progress: Progress | None, policies: dict[str, Any]
) -> tuple[dict[str, float], float | None, Scores]:
    """The options that are best on validation, their value there, and the scores that they give."""
    if len(yardstick.grid) == 1:
        return yardstick.grid[0], None, yardstick.fit(**yardstick.grid[0])
    if "validation" not in dataset:
        fix = f"{name} chooses its options on it: prepare the data set with one, or leave {name} out"
        raise DataError("has no validation split", fix, file=str(dataset.path))
    rows, targets = histories(*_splits(dataset, ("train",))), dataset.relevance("validation")
    best: tuple[dict[str, float], float, Scores] | None = None
    for done, options in enumerate(yardstick.grid):
        if progress is not None:
            progress(f"{name}: choosing on validation", done, len(yardstick.grid))
        scores = yardstick.fit(**options)
        found = evaluate_catalogue(partial(scores, rows), targets, metrics=select, **policies)
        value = next(iter(found.values.values()))
        if best is None or value > best[1]:
            best = options, value, scores
        del scores
    assert best is not None
    return best
