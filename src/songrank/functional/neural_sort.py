"""NDCG with a soft sort: NeuralSort, and the losses NeuralNDCG and PiRank."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from songrank.core.checks import check_int, check_number
from songrank.core.errors import UserError
from songrank.core.gains import Gain, discounts, gains, ideal_dcg, safe_divide
from songrank.core.limits import SOFT_SORT_ITEMS
from songrank.functional.lists import pairwise, prepare, reduce_lists

_NOTHING = 1e-18  # below it the square of a sum, and so the gradient of dividing by it, underflows in float32


def neural_sort(scores: Tensor, *, mask: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    r"""Soft permutation matrix [..., position, item], rows summing to 1 (Grover et al. 2019).

    P̂[i, ·] = softmax( ((n + 1 − 2i) s − A_s 1) / τ ) with A_s[j, k] = |s_j − s_k| and n items in the list. Rows after
    n and columns of padding are 0.

    >>> neural_sort(torch.tensor([1.0, 3.0]), temperature=0.01)
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_number("temperature", temperature, 0.0, low_open=True)
    if scores.shape[-1] > SOFT_SORT_ITEMS:
        what = f"a soft sort of {scores.shape[-1]:,} items takes {scores.shape[-1] ** 2 * 4 / 1e9:,.0f} GB"
        fix = "sample the lists (batch.length in a recipe), or use another loss, such as approx-ndcg"
        raise UserError(f"{what}; expected lists of at most {SOFT_SORT_ITEMS:,} items: {fix}")
    scores, _, mask = prepare(scores, torch.zeros_like(scores), mask)
    spread = torch.where(mask.unsqueeze(-2), pairwise(scores).abs(), 0.0).sum(-1)
    count = mask.sum(-1, keepdim=True)
    place = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    slope = (count + 1 - 2 * place).to(scores.dtype)
    # Scores relative to each list's mean, which softmax cancels, keep the products small and exact.
    centred = scores - safe_divide(scores.sum(-1, keepdim=True), count.to(scores.dtype))
    logits = (slope.unsqueeze(-1) * centred.unsqueeze(-2) - spread.unsqueeze(-2)) / temperature
    there = mask.unsqueeze(-2) & (place <= count).unsqueeze(-1)
    logits = torch.where(there, logits, torch.full_like(logits, -torch.inf))
    logits = torch.where(there.any(-1, keepdim=True), logits, 0.0)
    return torch.where(there, torch.softmax(logits, -1), 0.0)


def balanced_product(matrix: Tensor, values: Tensor, iterations: int) -> Tensor:
    """diag(a) M diag(b) values: M made doubly stochastic by Sinkhorn iterations, times values.

    Each iteration divides columns by their sums, then rows; zero rows and columns, for example padding, are unchanged.
    Only vectors are updated: b ← 1 / (Mᵀ a), a ← 1 / (M b). An iteration reads M twice and writes no matrix; the
    gradient in M is one product of the vectors of all iterations.
    """
    product: Tensor = _BalancedProduct.apply(matrix, values, iterations)  # type: ignore[no-untyped-call]
    return product


class _BalancedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, values: Tensor, iterations: int) -> Tensor:
        row, column = torch.ones_like(values), torch.ones_like(values)
        steps: list[Tensor] = []
        for _ in range(iterations):
            total = _turned_times(matrix, row)
            divide = column * total > _NOTHING
            column = torch.where(divide, 1.0 / total, column)
            steps += [column, divide]
            total = _times(matrix, column)
            divide = row * total > _NOTHING
            row = torch.where(divide, 1.0 / total, row)
            steps += [row, divide]
        product = _times(matrix, column * values)
        ctx.save_for_backward(matrix, values, product, *steps)
        return row * product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        matrix, values, product, *steps = ctx.saved_tensors
        rows = [torch.ones_like(values), *steps[2::4]]
        columns = [torch.ones_like(values), *steps[0::4]]
        left, right = [gradient * rows[-1]], [columns[-1] * values]
        d_row, d_column = gradient * product, _turned_times(matrix, left[0]) * values
        for at in range(len(rows) - 1, 0, -1):
            d_total = torch.where(steps[4 * at - 1], -(d_row * rows[at]) * rows[at], 0.0)
            d_row = torch.where(steps[4 * at - 1], 0.0, d_row)
            left, right = [*left, d_total], [*right, columns[at]]
            d_column = d_column + _turned_times(matrix, d_total)
            d_total = torch.where(steps[4 * at - 3], -(d_column * columns[at]) * columns[at], 0.0)
            d_column = torch.where(steps[4 * at - 3], 0.0, d_column)
            left, right = [*left, rows[at - 1]], [*right, d_total]
            d_row = d_row + _times(matrix, d_total)
        return _product(torch.stack(left, -1), torch.stack(right, -2)), None, None


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Matrix product in full precision, also under autocast."""
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return _product(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _turned_times(matrix: Tensor, vector: Tensor) -> Tensor:
    return _product(vector.unsqueeze(-2), matrix).squeeze(-2)


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

    −(1/Z) Σ_i (P̂ gain)_i / log₂(1 + i), O(L²) per list. The number of Sinkhorn iterations is fixed, so the loss
    compiles and needs no host transfer.

    >>> neural_ndcg_loss(torch.tensor([[9.0, 0.0]]), torch.tensor([[1.0, 0.0]]))              # nearly sorted
    tensor(-1.0000)
    """
    check_int("sinkhorn_iterations", sinkhorn_iterations, 0)
    order = neural_sort(scores, mask=mask, temperature=temperature)
    _, labels, mask = prepare(scores, labels, mask)
    place = torch.arange(1, labels.shape[-1] + 1, device=labels.device, dtype=labels.dtype)
    discount = discounts(place)
    if k is not None:
        discount = torch.where(place <= check_int("k", k), discount, 0.0)
    at_place = balanced_product(order, gains(labels, gain).to(order.dtype), sinkhorn_iterations)
    value = safe_divide((at_place * discount).sum(-1), ideal_dcg(labels, k=k, gain=gain))
    return reduce_lists(-value, mask, reduction)


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
    r"""−NDCG@k of the softly sorted gains, with the P̂ of :func:`neural_sort` (Swezey et al. 2021, at depth 1).

    >>> pirank_loss(torch.tensor([[9.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(-1.0000)
    """
    options: dict[str, Any] = {"mask": mask, "reduction": reduction, "temperature": temperature, "gain": gain, "k": k}
    return neural_ndcg_loss(scores, labels, sinkhorn_iterations=0, **options)
