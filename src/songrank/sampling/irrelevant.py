"""Drawing irrelevant items: spread over what a query has not taken, each equally likely, none twice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank._csr import floor_divide, partition_point, search_depth, segment_rows
from songrank.functional.hashing import below, random_words
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
        words = random_words(key, columns + 1)
        first, drawn, available = (part.unsqueeze(1) for part in (first, drawn, available))
        # One column more than asked for: where a stretch ends, the next one begins. Its word is the turn's.
        slot = torch.arange(columns + 1, device=key.device) - first
        slot = slot.clamp(min=torch.zeros_like(drawn), max=drawn)
        cut = floor_divide(slot.mul_(available), drawn.clamp_min(1))
        turn = below(words[:, -1:], available)
        turned = below(words[:, :-1], cut.diff(dim=1)).add_(cut[:, :-1])
        place = turned + turn
        place.sub_(torch.where(place >= available, available, 0))
        return cls(first, drawn, available, turn, turned, place)


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
    """The same by counting, for each taken item, from which draw on it comes before; O(taken + places)."""
    rows, columns = spread.place.shape
    length = stop - start
    ends = length.cumsum(0)
    first_item = 0 if relevance.list_start is None else relevance.list_start[local]
    # What a taken item needs to know of its row, in one gather: where its row lies in the flat table, how its number
    # becomes its turned place, how many places and draws the row has, and where its bins begin.
    available, turn, first = (part.squeeze(1) for part in (spread.available, spread.turn, spread.first))
    bins = torch.arange(rows, device=local.device) * (columns + 1) + first
    parts = spread.drawn.squeeze(1).clamp_min(1)
    facts = torch.stack([start - ends + length, start - first_item - turn, available, available - turn, parts, bins], 1)
    shift, origin, available, limit, parts, bins = facts.index_select(0, segment_rows(length)).unbind(1)
    flat = torch.arange(shift.shape[0], device=local.device) + shift
    turned = relevance.taken_item.index_select(0, flat) - flat + origin
    inside = turned < limit  # the others stand after every untaken item, and come before none
    wrapped = turned < 0
    turned = torch.where(wrapped, turned + available, turned)
    # The draw whose stretch this place lies in, or the next draw if that one's place comes first.
    slot = floor_divide((turned + 1) * parts - 1, available.clamp_min(1))
    at = torch.where(inside, slot + bins, 0)
    places = torch.nn.functional.pad(spread.turned_place, (0, 1)).view(-1)
    nowhere = rows * (columns + 1)
    at = torch.where(inside, at + (places.index_select(0, at) < turned), nowhere)
    counts = torch.bincount(at, minlength=nowhere + 1)[:nowhere].view(rows, columns + 1)
    wraps, within = _sums(wrapped, ends, length), _sums(inside, ends, length)
    around = spread.turned_place + spread.turn >= spread.available
    return counts[:, :columns].cumsum(1) + torch.where(around, wraps - within, wraps)


def _sums(flags: Tensor, ends: Tensor, length: Tensor) -> Tensor:
    """[B, 1]: how many flags each row's segment holds."""
    total = torch.nn.functional.pad(flags.cumsum(0), (1, 0))
    return (total[ends] - total[ends - length]).unsqueeze(1)
