"""Gains 2^y − 1, discounts 1/log₂(1 + rank), DCG and ideal DCG."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_int

Gain = str | Callable[[Tensor], Tensor]
"""``"exp2"`` (2^y − 1), ``"linear"`` (y), or an increasing function of labels above 0."""


def gains(labels: Tensor, gain: Gain = "exp2") -> Tensor:
    """Gain of each label.

    >>> gains(torch.tensor([0.0, 1.0, 2.0])), gains(torch.tensor([0.0, 1.0, 2.0]), gain="linear")
    (tensor([0., 1., 3.]), tensor([0., 1., 2.]))
    """
    if callable(gain):
        # Irrelevant items, including padding, have gain 0 whatever the function returns.
        return torch.where(labels > 0, gain(labels), 0.0)
    return torch.exp2(labels) - 1.0 if check_gain(gain) == "exp2" else labels


def weighted_labels(labels: Tensor, weight: Tensor | float, gain: str = "exp2") -> Tensor:
    r"""Labels whose gain is w times that of the given labels.

    .. math:: 2^{y'} - 1 = w (2^y - 1) \iff y' = \log_2(1 + w (2^y - 1)), \qquad \text{linear gain: } y' = w y

    Labels of 0 stay 0; a weight of 0 gives a label of 0.

    >>> weighted_labels(torch.tensor([2.0, 0.0, 1.0]), torch.tensor([1.0, 9.0, 3.0]))
    tensor([2., 0., 2.])
    >>> weighted_labels(torch.tensor([2.0, 0.0, 1.0]), 0.5, gain="linear")
    tensor([1.0000, 0.0000, 0.5000])
    """
    weight = torch.as_tensor(weight, dtype=labels.dtype, device=labels.device)
    if check_choice("gain", gain, ("exp2", "linear")) == "linear":
        return weight * labels
    weighted = torch.log1p(weight * torch.expm1(labels * math.log(2.0))) / math.log(2.0)
    return torch.where(weight == 1, labels, weighted)


def check_gain(gain: Gain) -> Gain:
    """Raise unless ``gain`` is a function or a known name."""
    return gain if callable(gain) else check_choice("gain", gain, ("exp2", "linear"))


def discounts(ranks: Tensor) -> Tensor:
    """1 / log₂(1 + rank) for ranks counted from 1.

    >>> discounts(torch.tensor([1.0, 3.0]))
    tensor([1.0000, 0.5000])
    """
    return torch.reciprocal(torch.log2(1.0 + ranks))


def dcg(
    labels: Tensor, ranks: Tensor, *, mask: Tensor | None = None, k: int | None = None, gain: Gain = "exp2"
) -> Tensor:
    """Σ_i gain(y_i) / log₂(1 + rank_i) over the last axis; ranks may be fractional, ranks above ``k`` are ignored.

    >>> dcg(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))                     # 1/log₂2 + 3/log₂4
    tensor(2.5000)
    """
    terms = gains(labels, gain) * discounts(ranks)
    if k is not None:
        terms = torch.where(ranks <= check_int("k", k), terms, 0.0)
    if mask is not None:
        terms = torch.where(mask, terms, 0.0)
    return terms.sum(-1)


def ideal_dcg(labels: Tensor, *, mask: Tensor | None = None, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """DCG of the ideal ranking, Z_q (or Z_q^K with ``k``), over the last axis; 0 if nothing is relevant.

    Args:
        labels: [..., L], non-negative.
        mask: [..., L], False for padding.
        k: cutoff; None for the whole list.
        gain: see :func:`gains`.

    >>> ideal_dcg(torch.tensor([0.0, 2.0, 1.0]), k=1)
    tensor(3.)
    """
    labels = labels.to(torch.promote_types(labels.dtype, torch.float32))
    if mask is not None:
        labels = torch.where(mask, labels, 0.0)
    if k is not None and check_int("k", k) < labels.shape[-1]:
        best = labels.topk(k, dim=-1).values
    else:
        best = labels.sort(dim=-1, descending=True).values
    positions = torch.arange(1, best.shape[-1] + 1, device=labels.device, dtype=best.dtype)
    return dcg(best, positions, gain=gain)


def safe_divide(total: Tensor, by: Tensor) -> Tensor:
    """``total / by``, or 0 where ``by`` is 0."""
    some = by > 0
    return torch.where(some, total / torch.where(some, by, 1), 0.0)
