"""The models that the automatic choice tries on a data set, in order."""

from dataclasses import dataclass

import torch

from songrank.core.errors import DataError
from songrank.data import Dataset

_FACTORS_SHARE = 0.3
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
        note: how it differs from the recipe on this device, a sentence; empty if it does not.
    """

    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    share: float | None = None
    reason: str = ""
    note: str = ""


def parts_for(dataset: Dataset, device: torch.device) -> tuple[Part, ...]:
    """The models to try on this data set.

    EASE is first: it is fitted in seconds. A matrix factorisation, which ignores order, is next: on a CPU it needs a
    tenth of the time of a sequence model. If the splits are in the order of time, a sequence model has the rest.
    """
    if dataset.task != "recommendation":
        fix = f"for {dataset.task}, use the recipe {'search' if dataset.task == 'search' else 'labelling'}"
        raise DataError(f"is a {dataset.task} data set; auto is for recommendation", fix, file=str(dataset.path))
    closed = Part("ease", "ease", reason="a linear model in closed form, the first answer")
    if "validation" not in dataset:
        return (closed,)
    reason = "users and items as vectors, without order"
    if not in_order(dataset):
        return closed, Part("factors", "recommendation", share=1.0, reason=reason)
    factors = Part("factors", "recommendation", share=_FACTORS_SHARE, reason=reason)
    small = device.type == "cpu"
    changes = SEQUENCE_ON_A_CPU if small else ()
    reason = "the splits are in the order of time"
    return closed, factors, Part("sequence", "sequences", changes, 1.0, reason, smaller_on_a_cpu() if small else "")


def smaller_on_a_cpu() -> str:
    """One sentence: how the sequence model on a CPU differs from its recipe, and how to train that one.

    >>> smaller_on_a_cpu().partition(";")[0]
    'smaller on a CPU than its recipe: model.dim=64, model.length=50, batch.irrelevant=500'
    """
    full = "use a GPU, or `songrank train sequences data=DATA` for the whole model"
    return f"smaller on a CPU than its recipe: {', '.join(SEQUENCE_ON_A_CPU)}; {full}"


def in_order(dataset: Dataset) -> bool:
    """Whether the held-out items of a user are later than those in training, as far as the data set knows."""
    return "place" not in dataset.info["columns"]


def default_budget(dataset: Dataset) -> float:
    """Seconds of training without a given budget: 15, and 0.5 ms per training pair, at most 30 minutes."""
    return min(_MOST_SECONDS, _BASE_SECONDS + _PAIR_SECONDS * dataset["train"].label.numel())
