r"""How a slate stands for the full list: the one home of the estimator's weights (design decision 2).

A slate over-samples relevant items, and item i always meets itself. With N items in the list, N⁺ of them relevant,
m⁺ and m⁻ of each kind in the slate, an expectation over the list weighs relevant columns by N⁺/(N m⁺) and irrelevant
ones by N⁻/(N m⁻). For the rank of item i, its own comparison is known exactly, so the other relevant columns carry
(N⁺ − 1)/(N (m⁺ − 1)) each:

    ĝ_i = (1/N) [ ℓ(0) + (N⁺ − 1) · mean over the other sampled relevant + N⁻ · mean over the sampled irrelevant ]
"""

from typing import Any

import torch
from torch import Tensor

from songrank.core.slate import Slate

ESTIMATORS = ("strata", "plain")


def list_counts(slate: Slate, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(N_q, N_q⁺) of each row, [B]; N_q is at least 1, so that a row of padding divides by 1."""
    return slate.list_size.to(dtype).clamp_min(1.0), slate.num_relevant.to(dtype)


def slate_lists(slate: Slate, dtype: torch.dtype) -> dict[str, Any]:
    """A slate as the arguments of :func:`list_weights` and :func:`rival_weights`."""
    size, relevant = list_counts(slate, dtype)
    weight = None if slate.weight is None else slate.weight.to(dtype)
    lists = {"label": slate.label, "mask": slate.mask, "list_size": size, "num_relevant": relevant}
    return {**lists, "weight": weight}


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
        mask: [B, L] or [1, L].
        list_size: N_q, [B].
        num_relevant: N_q⁺, [B].
        weight: own weights [B, L] that replace the strata's.
        estimator: ``"strata"``, or ``"plain"`` for 1/m each (what the reference code does; biased).

    >>> label, mask = torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> list_weights(label, mask, torch.tensor([10.0]), torch.tensor([2.0]))         # 2/10, and 8/10 shared by two
    tensor([[0.2000, 0.4000, 0.4000]])

    """
    mask = mask.expand(label.shape)
    if weight is not None:
        return torch.where(mask, weight, 0.0)
    if estimator == "plain":
        present = mask.to(list_size.dtype)
        return present / present.sum(-1, keepdim=True).clamp_min(1.0)
    relevant = mask & (label > 0)
    sampled_relevant, sampled_irrelevant = _sampled(relevant, mask, list_size.dtype)
    return _spread(
        relevant,
        mask,
        num_relevant / (list_size * sampled_relevant.clamp_min(1.0)),
        (list_size - num_relevant) / (list_size * sampled_irrelevant.clamp_min(1.0)),
    )


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

    The sum runs over all columns, i's own included; ``own`` corrects what that counts too much or too little.

    >>> label, mask = torch.tensor([[1.0, 1.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> rival_weights(label, mask, torch.tensor([10.0]), torch.tensor([4.0]))
    (tensor([[0.3000, 0.3000, 0.6000]]), tensor([[-0.2000]]))
    """
    if weight is not None or estimator == "plain":
        column = list_weights(label, mask, list_size, num_relevant, weight=weight, estimator=estimator)
        return column, torch.zeros_like(column[:, :1])
    mask = mask.expand(label.shape)
    relevant = mask & (label > 0)
    sampled_relevant, sampled_irrelevant = _sampled(relevant, mask, list_size.dtype)
    others = (num_relevant - 1.0).clamp_min(0.0) / (list_size * (sampled_relevant - 1.0).clamp_min(1.0))
    others = torch.where(sampled_relevant > 1, others, 0.0)
    column = _spread(
        relevant, mask, others, (list_size - num_relevant) / (list_size * sampled_irrelevant.clamp_min(1.0))
    )
    return column, (1.0 / list_size - others).unsqueeze(-1)


def _sampled(relevant: Tensor, mask: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    sampled_relevant = relevant.sum(-1, dtype=torch.int32).to(dtype)
    return sampled_relevant, mask.sum(-1, dtype=torch.int32).to(dtype) - sampled_relevant


def _spread(relevant: Tensor, mask: Tensor, on_relevant: Tensor, on_irrelevant: Tensor) -> Tensor:
    column = torch.where(relevant, on_relevant.unsqueeze(-1), on_irrelevant.unsqueeze(-1))
    return torch.where(mask, column, 0.0)
