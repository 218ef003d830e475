"""The models that the automatic choice tries on a data set, in order."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from songrank.core.errors import DataError
from songrank.data import Dataset

_BASE_SECONDS, _PAIR_SECONDS, _MOST_SECONDS = 15.0, 5e-4, 1800.0
# A sequence model on a CPU: narrower, and with a part of the items per step
SEQUENCE_ON_A_CPU = ("model.dim=64", "model.length=50", "batch.irrelevant=500")


@dataclass(frozen=True)
class Part:
    """A model to try.

    Args:
        name: name of its directory and in messages.
        recipe: name of a built-in recipe.
        changes: changes of the recipe.
        share: part of the remaining time that it may use; None for a model in closed form, which has no limit.
        reason: why it suits the data, a clause.
    """

    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    share: float | None = None
    reason: str = ""


def parts_for(dataset: Dataset, device: torch.device) -> tuple[Part, ...]:
    """The models to try on this data set.

    EASE is first: it is fitted in seconds. If the splits are in the order of time, a sequence model is next. The last
    one is a matrix factorisation, which ignores order.
    """
    if dataset.task != "recommendation":
        fix = f"for {dataset.task}, use the recipe {'search' if dataset.task == 'search' else 'labelling'}"
        raise DataError(f"is a {dataset.task} data set; auto is for recommendation", fix, file=str(dataset.path))
    closed = Part("ease", "ease", reason="a linear model in closed form, the first answer")
    if "validation" not in dataset:
        return (closed,)
    factors = Part("factors", "recommendation", share=1.0, reason="users and items as vectors, without order")
    if not in_order(dataset):
        return closed, factors
    changes: Sequence[str] = SEQUENCE_ON_A_CPU if device.type == "cpu" else ()
    ordered = Part("sequence", "sequences", tuple(changes), share=0.75, reason="the splits are in the order of time")
    return closed, ordered, factors


def in_order(dataset: Dataset) -> bool:
    """Whether the held-out items of a user are later than those in training, as far as the data set knows."""
    return "place" not in dataset.info["columns"]


def default_budget(dataset: Dataset) -> float:
    """Seconds of training without a given budget: 15, and 0.5 ms per training pair, at most 30 minutes."""
    return min(_MOST_SECONDS, _BASE_SECONDS + _PAIR_SECONDS * dataset["train"].label.numel())
