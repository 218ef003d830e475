"""NDCG with a smooth rank: ApproxNDCG, and its average over Gumbel noise."""

import torch
from torch import Tensor

from songrank._checks import check_int, check_number, fail
from songrank.functional.gains import Gain, dcg, ideal_dcg
from songrank.functional.lists import pairwise, prepare, reduce_lists, safe_divide


def approx_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    temperature: float = 1.0,
    gain: Gain = "exp2",
) -> Tensor:
    r"""−(1/Z) Σ_i gain_i / log₂(1 + r̂_i), with r̂_i = 1 + Σ_{j≠i} σ((s_j − s_i)/T) (Qin, Liu and Li 2010).

    >>> approx_ndcg_loss(torch.tensor([[50.0, 0.0]]), torch.tensor([[1.0, 0.0]]))     # ranked perfectly
    tensor(-1.)
    """
    check_number("temperature", temperature, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    rivals = torch.sigmoid(-pairwise(scores) / temperature)
    rivals = torch.where(mask.unsqueeze(-2), rivals, 0.0)
    rank = 0.5 + rivals.sum(-1)  # an item's comparison with itself is the missing half
    value = safe_divide(dcg(labels, rank, mask=mask, gain=gain), ideal_dcg(labels, gain=gain))
    return reduce_lists(-value, mask, reduction)


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
) -> Tensor:
    r"""ApproxNDCG averaged over score + β·Gumbel noise (Bruch et al. 2020).

    Args:
        scores: [..., L].
        labels: [..., L].
        mask: [..., L], False for padding.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        temperature: T of the smooth rank.
        gain: gain of a label.
        samples: how many draws of noise, where none is given.
        scale: β.
        noise: standard Gumbel noise [samples, ..., L]; drawn from torch's generator if not given.

    >>> scores, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    >>> gumbel_approx_ndcg_loss(scores, labels, noise=torch.zeros(4, 1, 2)) == approx_ndcg_loss(scores, labels)
    tensor(True)

    """
    check_number("scale", scale, 0.0)
    present = prepare(scores, labels, mask)[2]
    if noise is None:
        noise = gumbel(torch.rand((check_int("samples", samples), *scores.shape), device=scores.device))
    elif noise.shape[1:] != scores.shape:
        fail("noise", f"of shape {list(noise.shape)}", f"[samples, …] with … the shape of scores, {list(scores.shape)}")
    dtype = torch.promote_types(scores.dtype, torch.float32)
    noisy = scores.to(dtype).unsqueeze(0) + scale * noise.to(dtype)
    repeated = labels.unsqueeze(0).expand(noisy.shape)
    there = present.unsqueeze(0).expand(noisy.shape)
    values = approx_ndcg_loss(noisy, repeated, mask=there, reduction="none", temperature=temperature, gain=gain)
    return reduce_lists(values.mean(0), present, reduction)


def gumbel(uniform: Tensor) -> Tensor:
    """Standard Gumbel noise from uniform numbers in (0, 1)."""
    tiny = torch.finfo(uniform.dtype).tiny
    exponential = (-torch.log(uniform.clamp_min(tiny))).clamp_min(tiny)
    return -torch.log(exponential)
