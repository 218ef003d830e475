"""Drawing irrelevant items: spread over what a query has not taken, each equally likely, none twice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank._csr import partition_point, search_depth, segment_rows
from songrank.functional.hashing import random_below
from songrank.relevance import Relevance


@dataclass(frozen=True)
class Spread:
    """Places drawn among the n irrelevant items of each row, in their own order: the items are not known yet.

    The n places, laid on a circle and turned by a random amount, are cut into one stretch for each draw, and each draw
    takes one place of its stretch. The turn makes every place equally likely; the stretches make draws distinct and
    spread them out. Draws stand in columns ``first`` … ``first + drawn − 1``; the others hold something valid but
    meaningless. ``turned_place`` and ``place`` are [B, L], the rest [B, 1].
    """

    first: Tensor
    drawn: Tensor
    available: Tensor
    turn: Tensor
    turned_place: Tensor
    place: Tensor

    @classmethod
    def draw(cls, key: Tensor, first: Tensor, drawn: Tensor, available: Tensor, columns: int) -> Spread:
        """Draw for L = ``columns`` columns; ``key`` [B] is where a row's random numbers come from."""
        key, first, drawn, available = (part.unsqueeze(1) for part in (key, first, drawn, available))
        slot = torch.arange(columns, device=key.device) - first
        slot = torch.minimum(slot.clamp_min(0), (drawn - 1).clamp_min(0))
        parts = drawn.clamp_min(1)
        low = torch.div(slot * available, parts, rounding_mode="floor")
        high = torch.div((slot + 1) * available, parts, rounding_mode="floor")
        turn = random_below(key, torch.full_like(key, -2), available)
        turned = low + random_below(key, slot, high - low)
        place = turned + turn
        return cls(first, drawn, available, turn, turned, torch.where(place >= available, place - available, place))


def irrelevant_items(relevance: Relevance, local: Tensor, spread: Spread) -> Tensor:
    """[B, L]: the item at each place among those that row's query has not taken, as an offset from its list's start."""
    start, stop = relevance.taken_indptr[local], relevance.taken_indptr[local + 1]
    # Both ways give the same numbers. Merging reads every taken item of the batch's queries once; searching takes a
    # fixed number of steps a place and reads nothing back, which is what a GPU wants.
    if local.device.type == "cpu" and not torch.compiler.is_compiling():
        total = int((stop - start).sum())
        if total <= 8 * spread.place.numel():
            return spread.place + taken_before_by_merge(relevance, local, start, stop, spread)
    return spread.place + taken_before_by_search(relevance, local, start, stop, spread)


def _first_item(relevance: Relevance, local: Tensor) -> Tensor | int:
    return 0 if relevance.list_start is None else relevance.list_start[local].unsqueeze(1)


def taken_before_by_search(relevance: Relevance, local: Tensor, start: Tensor, stop: Tensor, spread: Spread) -> Tensor:
    """How many taken items come before each place.

    The j-th taken item c_j of a list has c_j − j untaken items before it, so it comes before the r-th untaken item if
    and only if c_j − j ≤ r; c_j − j never falls, so bisection finds how many do.
    """
    taken = relevance.taken_item
    if taken.numel() == 0:
        return torch.zeros_like(spread.place)
    origin = start.unsqueeze(1).expand(spread.place.shape)
    bound = spread.place + _first_item(relevance, local) - origin

    def comes_before(at: Tensor) -> Tensor:
        return taken[at] - at <= bound

    depth = search_depth(relevance.max_taken)
    return partition_point(origin, stop.unsqueeze(1).expand(origin.shape), depth, comes_before) - origin


def taken_before_by_merge(relevance: Relevance, local: Tensor, start: Tensor, stop: Tensor, spread: Spread) -> Tensor:
    """The same by counting, for each taken item, at which draw it begins to come before; O(taken + places)."""
    length = stop - start
    row = segment_rows(length)
    begin = length.cumsum(0) - length
    order = torch.arange(row.shape[0], device=row.device) - begin[row]
    taken = relevance.taken_item[start[row] + order].long()
    if relevance.list_start is not None:
        taken = taken - relevance.list_start[local][row]
    before = taken - order
    available, turn = spread.available.squeeze(1), spread.turn.squeeze(1)
    within = before < available[row]
    row, before = row[within], before[within]
    turned = before - turn[row]
    wrapped = turned < 0
    turned = torch.where(wrapped, turned + available[row], turned)
    # The draw whose stretch this place lies in, then that draw or the next, by which of the two places comes first.
    parts = spread.drawn.squeeze(1).clamp_min(1)[row]
    slot = torch.div((turned + 1) * parts - 1, available[row], rounding_mode="floor")
    rows, columns = spread.place.shape
    column = slot + spread.first.squeeze(1)[row]
    later = spread.turned_place[row, column] < turned
    bins = row * (columns + 1) + column + later
    counts = torch.bincount(bins, minlength=rows * (columns + 1)).view(rows, columns + 1)[:, :columns]
    reached = counts.cumsum(1)
    wraps = torch.zeros_like(length).index_add_(0, row, wrapped.long()).unsqueeze(1)
    inside = torch.zeros_like(length).index_add_(0, row, torch.ones_like(row)).unsqueeze(1)
    return reached + wraps - torch.where(spread.turned_place + spread.turn >= spread.available, inside, 0)
