"""Drawing items: any subset of the relevant ones, and irrelevant ones spread over what a query has not taken.

Whole numbers are kept in float64, exact below 2⁵³: its divisions are several times faster than int64's, and in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.csr import partition_point, search_depth, segment_rows
from songrank.core.hashing import random_bits
from songrank.core.relevance import Relevance


def random_fractions(key: Tensor, count: int) -> Tensor:
    """[..., count]: float64 numbers in [0, 1), 32 bits each, for ``key`` [...]; two from each 64-bit number.

    ⌊fraction · n⌋ is then below n for any whole n < 2³², with a bias below n/2³², and the same on every device.
    """
    bits = random_bits(key.unsqueeze(-1), torch.arange((count + 1) // 2, device=key.device))
    return bits.view(torch.int32)[..., :count].double().mul_(2.0**-32).add_(0.5)


def draw_distinct(key: Tensor, population: Tensor, drawn: Tensor, width: int) -> Tensor:
    """[B, width]: in its first ``drawn`` entries each row has distinct numbers below its ``population``.

    Floyd's algorithm, a column per step for all rows at once: exactly uniform over subsets, so that next to a drawn
    item every other item is equally likely; ĝ is unbiased for that reason. ``key`` [B] int64 seeds each row.
    """
    column = torch.arange(width, device=key.device)
    last = population.unsqueeze(1) - drawn.unsqueeze(1) + column
    guess = (random_fractions(key, width) * (last + 1)).floor_().long()
    picked = torch.full_like(guess, -1)
    for step in range(width):
        repeated = (picked[:, :step] == guess[:, step : step + 1]).any(-1)
        picked[:, step] = torch.where(repeated, last[:, step], guess[:, step])
    return picked


@dataclass(frozen=True)
class Spread:
    """Places drawn among the n irrelevant items of each row, in their own order: the items are not known yet.

    The n places, laid on a circle and turned by a random amount, are cut into one stretch for each draw, and each draw
    takes one place of its stretch. The turn makes every place equally likely; the stretches make draws distinct and
    spread them out. Draws stand in columns ``first`` … ``first + drawn − 1``; the others hold something valid but
    meaningless. ``turned_place`` and ``around`` (where turning back leads past the end) are [B, L], the others [B, 1].
    """

    first: Tensor
    drawn: Tensor
    available: Tensor
    turn: Tensor
    turned_place: Tensor
    around: Tensor

    @classmethod
    def draw(cls, key: Tensor, first: Tensor, drawn: Tensor, available: Tensor, columns: int) -> Spread:
        """Draw for L = ``columns`` columns; ``key`` [B] is where a row's random numbers come from."""
        share = random_fractions(key, columns + 1)
        first, drawn, available = (part.unsqueeze(1).double() for part in (first, drawn, available))
        # One column more than asked for: where a stretch ends, the next one begins. Its random number is the turn's.
        slot = torch.arange(columns + 1, device=key.device, dtype=torch.float64) - first
        slot = slot.clamp_(min=torch.zeros_like(drawn), max=drawn)
        cut = slot.mul_(available).div_(drawn.clamp_min(1.0)).floor_()
        turn = (share[:, -1:] * available).floor_()
        turned = cut.diff(dim=1).mul_(share[:, :-1]).floor_().add_(cut[:, :-1])
        return cls(first, drawn, available, turn, turned, turned >= available - turn)

    def turn_back_(self, added: Tensor) -> Tensor:
        """``added`` [B, L] + the places themselves, in ``added``'s memory."""
        return added.add_(self.turned_place).add_(self.turn).addcmul_(self.around, self.available, value=-1.0)


def irrelevant_items(relevance: Relevance, local: Tensor, spread: Spread) -> Tensor:
    """[B, L]: the item at each place among those that row's query has not taken, as an offset from its list's start."""
    start, stop = relevance.taken_indptr[local], relevance.taken_indptr[local + 1]
    # Both ways give the same numbers. Merging reads every taken item of the batch's queries once; searching takes a
    # fixed number of steps a place and reads nothing back, which is what a GPU wants.
    if local.device.type == "cpu" and not torch.compiler.is_compiling():
        total = int((stop - start).sum())
        if total <= 8 * spread.turned_place.numel():
            return spread.turn_back_(taken_before_by_merge(relevance, local, start, spread)).long()
    return spread.turn_back_(taken_before_by_search(relevance, local, start, stop, spread).double()).long()


def taken_before_by_search(relevance: Relevance, local: Tensor, start: Tensor, stop: Tensor, spread: Spread) -> Tensor:
    """How many taken items come before each place.

    The j-th taken item c_j of a list has c_j − j untaken items before it, so it comes before the r-th untaken item if
    and only if c_j − j ≤ r; c_j − j never falls, so bisection finds how many do.
    """
    taken = relevance.taken_item
    place = spread.turn_back_(torch.zeros_like(spread.turned_place)).long()
    if taken.numel() == 0:
        return torch.zeros_like(place)
    first_item = 0 if relevance.list_start is None else relevance.list_start[local].unsqueeze(1)
    origin = start.unsqueeze(1).expand(place.shape)
    bound = place + first_item - origin

    def comes_before(at: Tensor) -> Tensor:
        return taken[at] - at <= bound

    depth = search_depth(relevance.max_taken)
    return partition_point(origin, stop.unsqueeze(1).expand(origin.shape), depth, comes_before) - origin


def taken_before_by_merge(relevance: Relevance, local: Tensor, start: Tensor, spread: Spread) -> Tensor:
    """The same, as float64, by counting from which draw on each taken item comes before; O(taken + places)."""
    rows, columns = spread.turned_place.shape
    row, flat = segment_rows(relevance.taken_indptr[local + 1] - start, start)
    first_item = 0 if relevance.list_start is None else relevance.list_start[local]
    parts = (spread.turn, spread.available, spread.drawn, spread.first)
    turn, available, drawn, first = (part.squeeze(1) for part in parts)
    turned = (start - first_item - turn).index_select(0, row)
    turned.sub_(flat).add_(relevance.taken_item.index_select(0, flat))
    limit = (available - turn).index_select(0, row)
    cell = (torch.arange(rows, device=row.device, dtype=torch.float64) * columns + first).index_select(0, row)
    available, drawn = available.clamp_min(1.0).index_select(0, row), drawn.index_select(0, row)
    inside = turned < limit  # the others stand after every untaken item, and come before none
    wrapped = turned < 0
    turned.addcmul_(wrapped, available)
    # The draw whose stretch this place lies in, or the next draw if that one's place comes first.
    cell = cell.add_(drawn.mul_(turned + 1.0).sub_(1.0).div_(available).floor_()).mul_(inside).long()
    later = spread.turned_place.view(-1).index_select(0, cell) < turned
    nowhere = rows * (columns + 1)  # each row has one bin more than cells, for those that come after its last draw
    bins = torch.where(inside, cell.add_(row).add_(later), nowhere)
    counts = torch.bincount(bins, weights=torch.ones_like(turned), minlength=nowhere + 1)
    before = counts[:nowhere].view(rows, columns + 1).cumsum_(1)
    wraps = torch.bincount(row, weights=wrapped.double(), minlength=rows).unsqueeze(1)
    within = before[:, columns:].clone()
    return before[:, :columns].add_(wraps).addcmul_(spread.around, within, value=-1.0)
