"""Losses by name, for recipes and commands."""

from collections.abc import Callable
from typing import TypeVar

from songrank.core.errors import DataError
from songrank.losses.base import RankingLoss

Loss = TypeVar("Loss", bound=RankingLoss)
LOSSES: dict[str, type[RankingLoss]] = {}
"""Filled by :func:`register`."""


def register(name: str) -> Callable[[type[Loss]], type[Loss]]:
    """Register a loss class under a name for recipes; a class decorator, also for your own losses.

    >>> LOSSES["song"].__name__
    'SONG'
    """

    def add(kind: type[Loss]) -> type[Loss]:
        LOSSES[name] = kind
        return kind

    return add


def check_weighted_loss(name: str) -> None:
    """Raise unless the loss of this name supports document weights, which multiply gains.

    Binary and listwise cross-entropy, gBCE and BPR use only whether a label is above 0, RankNet and ListMLE only their
    order; softmax, sampled softmax and ListNet weight by the label itself.

    >>> check_weighted_loss("bce")
    Traceback (most recent call last):
    songrank.core.errors.DataError: sample_weight multiplies gains, which loss 'bce' does not use; omit it or choose \
song, k-song, faster-song, faster-k-song, lambdarank, lambdaloss, approx-ndcg, gumbel-approx-ndcg, neural-ndcg or \
pirank
    """
    if not LOSSES[name].traits.gains:
        *some, last = (other for other, kind in LOSSES.items() if kind.traits.gains)
        what = f"sample_weight multiplies gains, which loss {name!r} does not use"
        raise DataError(what, f"omit it or choose {', '.join(some)} or {last}")
