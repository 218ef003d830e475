"""NDCG with smooth ranks: ApproxNDCG, and its average over Gumbel noise."""

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_number
from songrank.core.gains import Gain, dcg, ideal_dcg, safe_divide
from songrank.functional.lists import compare_with_rivals, prepare, reduce_lists, take_items


def approx_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    temperature: float = 1.0,
    gain: Gain = "exp2",
    column: Tensor | None = None,
) -> Tensor:
    r"""−(1/Z) Σ_i gain_i / log₂(1 + r̂_i), with r̂_i = 1 + Σ_{j≠i} σ((s_j − s_i)/T) (Qin, Liu and Li 2010).

    >>> approx_ndcg_loss(torch.tensor([[50.0, 0.0]]), torch.tensor([[1.0, 0.0]]))     # ranked perfectly
    tensor(-1.)
    """
    check_number("temperature", temperature, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    return reduce_lists(-_approx_ndcg(scores, labels, mask, column, temperature, gain), mask, reduction)


def gumbel_approx_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    temperature: float = 1.0,
    gain: Gain = "exp2",
    samples: int = 8,
    scale: float = 1.0,
    noise: Tensor | None = None,
    column: Tensor | None = None,
) -> Tensor:
    r"""ApproxNDCG averaged over score + β·Gumbel noise (Bruch et al. 2020).

    ``scale`` is β. ``noise`` [samples, ..., L] is standard Gumbel noise; by default it is drawn by torch's generator.

    >>> scores, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    >>> gumbel_approx_ndcg_loss(scores, labels, noise=torch.zeros(4, 1, 2)) == approx_ndcg_loss(scores, labels)
    tensor(True)
    """
    check_number("temperature", temperature, 0.0, low_open=True)
    check_number("scale", scale, 0.0)
    scores, labels, mask = prepare(scores, labels, mask)
    if noise is None:
        noise = gumbel(torch.rand((check_int("samples", samples), *scores.shape), device=scores.device))
    elif noise.shape[1:] != scores.shape:
        raise ValueError(
            f"noise has shape {list(noise.shape)}; expected [samples, *scores.shape], {list(scores.shape)}"
        )
    noisy = torch.where(mask, scores + scale * noise.to(scores.dtype), 0.0)
    values = _approx_ndcg(noisy, labels, mask, column, temperature, gain)
    return reduce_lists(-values.mean(0), mask, reduction)


def _approx_ndcg(
    scores: Tensor, labels: Tensor, mask: Tensor, column: Tensor | None, temperature: float, gain: Gain
) -> Tensor:
    """NDCG at the smooth ranks of scores, which may have more leading axes than the labels."""
    scores = scores / temperature
    label, score = take_items(column, labels, scores)
    # Negating scores here saves a backward pass over pairs; comparison with itself adds the other half.
    rank = 0.5 + compare_with_rivals(_rivals_above, (-score,), (torch.where(mask, scores, -torch.inf),), per_item=True)
    return safe_divide(dcg(label, rank, gain=gain), ideal_dcg(label, gain=gain))


def _rivals_above(minus_score: Tensor, rival_score: Tensor) -> Tensor:
    return torch.sigmoid(rival_score + minus_score).sum(-1)


def gumbel(uniform: Tensor) -> Tensor:
    """Standard Gumbel noise from uniform numbers in (0, 1)."""
    tiny = torch.finfo(uniform.dtype).tiny
    exponential = (-torch.log(uniform.clamp_min(tiny))).clamp_min(tiny)
    return -torch.log(exponential)
