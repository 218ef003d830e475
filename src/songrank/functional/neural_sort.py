"""NDCG with a soft sort: NeuralSort, and the losses NeuralNDCG and PiRank that stand on it."""

import torch
from torch import Tensor

from songrank._checks import check_int, check_number
from songrank.functional.gains import Gain, discounts, gains, ideal_dcg
from songrank.functional.lists import pairwise, prepare, reduce_lists, safe_divide

_NOTHING = 1e-18  # a sum whose square would underflow in float32, and with it the gradient of dividing by it


def neural_sort(scores: Tensor, *, mask: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    r"""Soft permutation matrix [..., position, item], rows summing to 1 (Grover et al. 2019).

    P̂[i, ·] = softmax( ((n + 1 − 2i) s − A_s 1) / τ ) with A_s[j, k] = |s_j − s_k|, n the items that are there. Rows
    after n, and columns of padding, are 0.

    >>> neural_sort(torch.tensor([1.0, 3.0]), temperature=0.01)
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_number("temperature", temperature, 0.0, low_open=True)
    scores, _, mask = prepare(scores, torch.zeros_like(scores), mask)
    spread = torch.where(mask.unsqueeze(-2), pairwise(scores).abs(), 0.0).sum(-1)
    count = mask.sum(-1, keepdim=True)
    place = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    slope = (count + 1 - 2 * place).to(scores.dtype)
    # Measured from each list's mean, which softmax cancels: the products stay small and exact.
    centred = scores - safe_divide(scores.sum(-1, keepdim=True), count.to(scores.dtype))
    logits = (slope.unsqueeze(-1) * centred.unsqueeze(-2) - spread.unsqueeze(-2)) / temperature
    there = mask.unsqueeze(-2) & (place <= count).unsqueeze(-1)
    logits = torch.where(there, logits, torch.full_like(logits, -torch.inf))
    logits = torch.where(there.any(-1, keepdim=True), logits, 0.0)
    return torch.where(there, torch.softmax(logits, -1), 0.0)


def sinkhorn(matrix: Tensor, iterations: int) -> Tensor:
    """Alternately divide columns and rows by their sums: nearer to doubly stochastic with each iteration.

    Lines that sum to nothing, such as padding, are left as they are.
    """
    for _ in range(iterations):
        for axis in (-2, -1):
            total = matrix.sum(axis, keepdim=True)
            matrix = matrix / torch.where(total > _NOTHING, total, torch.ones_like(total))
    return matrix


def neural_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    temperature: float = 1.0,
    gain: Gain = "exp2",
    k: int | None = None,
    sinkhorn_iterations: int = 30,
) -> Tensor:
    r"""−NDCG of the softly sorted gains, with P̂ made doubly stochastic (Pobrotyn and Białobrzeski 2021).

    −(1/Z) Σ_i (P̂ gain)_i / log₂(1 + i). O(L²) a list. A fixed number of Sinkhorn iterations, so that it compiles and
    reads nothing back from the device.

    >>> neural_ndcg_loss(torch.tensor([[9.0, 0.0]]), torch.tensor([[1.0, 0.0]]))              # nearly sorted
    tensor(-1.0000)
    """
    check_int("sinkhorn_iterations", sinkhorn_iterations, 0)
    order = sinkhorn(neural_sort(scores, mask=mask, temperature=temperature), sinkhorn_iterations)
    return _soft_ndcg_loss(order, scores, labels, mask, reduction, gain, k)


def pirank_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    temperature: float = 1.0,
    gain: Gain = "exp2",
    k: int | None = None,
) -> Tensor:
    r"""−NDCG@k of the softly sorted gains, with P̂ as NeuralSort gives it (Swezey et al. 2021, at depth 1).

    >>> pirank_loss(torch.tensor([[9.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(-1.0000)
    """
    order = neural_sort(scores, mask=mask, temperature=temperature)
    return _soft_ndcg_loss(order, scores, labels, mask, reduction, gain, k)


def _soft_ndcg_loss(
    order: Tensor, scores: Tensor, labels: Tensor, mask: Tensor | None, reduction: str, gain: Gain, k: int | None
) -> Tensor:
    _, labels, mask = prepare(scores, labels, mask)
    place = torch.arange(1, labels.shape[-1] + 1, device=labels.device, dtype=labels.dtype)
    discount = discounts(place)
    if k is not None:
        discount = torch.where(place <= check_int("k", k), discount, 0.0)
    at_place = (order * gains(labels, gain).unsqueeze(-2)).sum(-1)
    value = safe_divide((at_place * discount).sum(-1), ideal_dcg(labels, k=k, gain=gain))
    return reduce_lists(-value, mask, reduction)
