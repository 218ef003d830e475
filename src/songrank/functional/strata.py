r"""Weights with which a slate estimates sums over the full list.

A slate over-samples relevant items. With N items in the list, N⁺ and N⁻ of each kind, m⁺ and m⁻ in the slate, a mean
over the list weights relevant columns by N⁺/(N m⁺) and irrelevant ones by N⁻/(N m⁻). For the rank of item i, its own
comparison is exact, so the other relevant columns have weight (N⁺ − 1)/(N (m⁺ − 1)) each:

    ĝ_i = (1/N) [ ℓ(0) + (N⁺ − 1) · mean over the other sampled relevant + N⁻ · mean over the sampled irrelevant ]
"""

from typing import Any

import torch
from torch import Tensor

from songrank.core.slate import Slate

ESTIMATORS = ("strata", "plain")


def list_counts(slate: Slate, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(N_q, N_q⁺) of each row, [B]; N_q is at least 1 for rows of padding."""
    return slate.list_size.to(dtype).clamp_min(1.0), slate.num_relevant.to(dtype)


def slate_lists(slate: Slate, dtype: torch.dtype) -> dict[str, Any]:
    """A slate as the arguments of :func:`list_weights` and :func:`rival_weights`."""
    size, relevant = list_counts(slate, dtype)
    weight = None if slate.weight is None else slate.weight.to(dtype)
    return {"label": slate.label, "mask": slate.mask, "list_size": size, "num_relevant": relevant, "weight": weight}


def list_weights(
    label: Tensor,
    mask: Tensor,
    list_size: Tensor,
    num_relevant: Tensor,
    *,
    weight: Tensor | None = None,
    estimator: str = "strata",
) -> Tensor:
    """Weights [B, L] with which a sum over the slate's columns estimates the mean over the full list.

    Args:
        label: [B, L].
        mask: [B, L] or [1, L], False for padding.
        list_size: N_q, [B].
        num_relevant: N_q⁺, [B].
        weight: [B, L], replaces the weights.
        estimator: ``"strata"``, or ``"plain"`` for 1/m each (as in the reference code; biased).

    >>> label, mask = torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> list_weights(label, mask, torch.tensor([10.0]), torch.tensor([2.0]))         # 2/10, and 8/10 split in two
    tensor([[0.2000, 0.4000, 0.4000]])
    """
    mask = mask.expand(label.shape)
    if weight is not None:
        return torch.where(mask, weight, 0.0)
    if estimator == "plain":
        present = mask.to(list_size.dtype)
        return present / present.sum(-1, keepdim=True).clamp_min(1.0)
    relevant, sampled, irrelevant = _strata(label, mask, list_size, num_relevant)
    each = num_relevant / (list_size * sampled.clamp_min(1.0))
    return torch.where(mask, torch.where(relevant, each.unsqueeze(-1), irrelevant), 0.0)


def rival_weights(
    label: Tensor,
    mask: Tensor,
    list_size: Tensor,
    num_relevant: Tensor,
    *,
    weight: Tensor | None = None,
    estimator: str = "strata",
) -> tuple[Tensor, Tensor]:
    """Weights for ĝ_i = Σ_j column_j ℓ(h_j − h_i) + own · ℓ(0): ``column`` [B, L] and ``own`` [B, 1].

    The sum includes i's own column; ``own`` corrects for it. The arguments are those of :func:`list_weights`.

    >>> label, mask = torch.tensor([[1.0, 1.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> rival_weights(label, mask, torch.tensor([10.0]), torch.tensor([4.0]))
    (tensor([[0.3000, 0.3000, 0.6000]]), tensor([[-0.2000]]))
    """
    if weight is not None or estimator == "plain":
        column = list_weights(label, mask, list_size, num_relevant, weight=weight, estimator=estimator)
        return column, torch.zeros_like(column[..., :1])
    mask = mask.expand(label.shape)
    relevant, sampled, irrelevant = _strata(label, mask, list_size, num_relevant)
    others = (num_relevant - 1.0).clamp_min(0.0) / (list_size * (sampled - 1.0).clamp_min(1.0))
    others = torch.where(sampled > 1, others, 0.0)
    column = torch.where(mask, torch.where(relevant, others.unsqueeze(-1), irrelevant), 0.0)
    return column, (1.0 / list_size - others).unsqueeze(-1)


def _strata(label: Tensor, mask: Tensor, list_size: Tensor, num_relevant: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which columns are relevant [B, L], m⁺ [B], and the weight of irrelevant columns [B, 1]."""
    relevant = mask & (label > 0)
    sampled = relevant.sum(-1, dtype=torch.int32).to(list_size.dtype)
    irrelevant = mask.sum(-1, dtype=torch.int32).to(list_size.dtype) - sampled
    return relevant, sampled, ((list_size - num_relevant) / (list_size * irrelevant.clamp_min(1.0))).unsqueeze(-1)
