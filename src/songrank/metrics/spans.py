r"""The core of all metrics: positions of the relevant items, and the seven formulas, which depend on these only.

List evaluation, which ranks all items, and catalogue evaluation, which ranks only held-out items, share this type.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import fail
from songrank.core.gains import Gain, discounts, gains, ideal_dcg, safe_divide
from songrank.functional.ranks import group_starts


@dataclass(frozen=True, eq=False)
class Spans:
    """Positions of the relevant items of R queries, at most P per query.

    ``first`` and ``last`` [R, P] are positions, from 1: the ends of the tied group under ``ties="average"``, else one
    tensor. ``label`` [R, P] is float64 and 0 where ``mask`` [R, P] is False. ``list_size`` [R] counts all items.
    """

    first: Tensor
    last: Tensor
    label: Tensor
    mask: Tensor
    list_size: Tensor

    @property
    def num_relevant(self) -> Tensor:
        """Relevant items of each query, float64."""
        return self.mask.sum(-1, dtype=torch.float64)


def dcgs(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """Σ_i gain_i · discount_i, the discount averaged over the positions of a tied group."""
    return _total(spans, _gains(spans, gain) * _mean_discount(spans, k))


def ndcgs(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """DCG over the ideal DCG; 0 where that is 0."""
    return safe_divide(dcgs(spans, k, gain), ideal_dcg(spans.label, mask=spans.mask, k=k, gain=gain))


def reciprocal_ranks(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """1 / the best rank, 0 if it is above k."""
    return torch.where(_within(spans, k), spans.last.double().reciprocal(), torch.zeros_like(spans.label)).amax(-1)


def average_precisions(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """Σ over relevant ranks r ≤ k of (relevant items ranked ≤ r) / r, over the number of relevant items."""
    behind = torch.full_like(spans.last, torch.iinfo(spans.last.dtype).max)
    rank, order = torch.where(spans.mask, spans.last, behind).sort(-1)
    # Tied items share a rank: count to the end of the group.
    found = rank.shape[-1] - group_starts(rank.flip(-1)).flip(-1)
    precision = torch.where(_within(spans, k).gather(-1, order), found / rank.double(), torch.zeros_like(spans.label))
    return safe_divide(precision.sum(-1), spans.num_relevant)


def precisions(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """Relevant items within k, over k; over the length of the list if k is None."""
    size = spans.list_size.double() if k is None else torch.full_like(spans.num_relevant, k)
    return safe_divide(_total(spans, _share_within(spans, k)), size)


def recalls(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """Relevant items within k, over all relevant items."""
    return safe_divide(_total(spans, _share_within(spans, k)), spans.num_relevant)


def hits(spans: Spans, k: int | None = None, gain: Gain = "exp2") -> Tensor:
    """1 if a relevant item is within k, else 0."""
    return _within(spans, k).any(-1).double()


def _total(spans: Spans, values: Tensor) -> Tensor:
    return torch.where(spans.mask, values, torch.zeros_like(values)).sum(-1)


def _gains(spans: Spans, gain: Gain) -> Tensor:
    values = gains(spans.label, gain)
    if not bool(values.isfinite().all()):
        fail("labels", f"as large as {float(spans.label.max()):g}", "labels with finite gain; use gain='linear'")
    return values


def _within(spans: Spans, k: int | None) -> Tensor:
    return spans.mask if k is None else spans.mask & (spans.last <= k)


def _share_within(spans: Spans, k: int | None) -> Tensor:
    if k is None:
        return torch.ones_like(spans.label)
    inside = (spans.last.clamp(max=k) - spans.first + 1).clamp_min(0)
    return inside.double() / (spans.last - spans.first + 1)


def _mean_discount(spans: Spans, k: int | None) -> Tensor:
    alone = discounts(spans.last.double())
    if k is not None:
        alone = torch.where(spans.last <= k, alone, torch.zeros_like(alone))
    if spans.first is spans.last:
        return alone
    longest = int(spans.last.max())
    longest = longest if k is None else min(k, longest)
    places = torch.arange(1, longest + 1, dtype=torch.float64, device=alone.device)
    sums = torch.nn.functional.pad(discounts(places).cumsum(0), (1, 0))
    total = sums[spans.last.clamp(max=longest)] - sums[(spans.first - 1).clamp(max=longest)]
    # A difference of cumulative sums loses precision in long lists, so untied items do not use it.
    return torch.where(spans.first == spans.last, alone, total / (spans.last - spans.first + 1))
