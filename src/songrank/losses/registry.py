"""Losses by name, for recipes and commands that hold only words and numbers."""

from collections.abc import Callable
from typing import TypeVar

from songrank.core.errors import DataError
from songrank.losses.base import RankingLoss

Loss = TypeVar("Loss", bound=RankingLoss)
LOSSES: dict[str, type[RankingLoss]] = {}
"""Filled by :func:`register`."""


def register(name: str) -> Callable[[type[Loss]], type[Loss]]:
    """Class decorator that makes a loss known to recipes by ``name``; your own losses may use it too.

    >>> LOSSES["song"].__name__
    'SONG'
    """

    def add(kind: type[Loss]) -> type[Loss]:
        LOSSES[name] = kind
        return kind

    return add


def check_weighted_loss(name: str) -> None:
    """Raise unless weights of documents multiply gains in the loss of this name.

    Binary and listwise cross-entropy only see which labels are above 0, RankNet and ListMLE only their order; softmax
    and ListNet weigh by the label itself.

    >>> check_weighted_loss("bce")
    Traceback (most recent call last):
    songrank.core.errors.DataError: sample_weight multiplies gains, and the loss bce has none; leave it out, or choose \
song, k-song, faster-song, faster-k-song, lambdarank, approx-ndcg, gumbel-approx-ndcg, neural-ndcg or pirank
    """
    if not LOSSES[name].traits.gains:
        *some, last = (other for other, kind in LOSSES.items() if kind.traits.gains)
        what = f"sample_weight multiplies gains, and the loss {name} has none"
        raise DataError(what, f"leave it out, or choose {', '.join(some)} or {last}")
