"""Draw items: subsets of the relevant ones, and irrelevant ones spread over the items that a query has not taken.

Whole numbers are stored as float64, exact below 2⁵³: divisions are several times faster than for int64, and in place.
"""

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
    """[B, width]: the first ``drawn`` entries of each row are distinct numbers below its ``population``.

    Floyd's algorithm, one column per step for all rows: exactly uniform over subsets, so that given a drawn item all
    others are equally likely, which makes ĝ unbiased. ``key`` [B] int64 seeds each row.
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
    """Positions drawn among the n irrelevant items of each row, before the items themselves are looked up.

    The n positions, on a circle rotated by a random amount, are divided into one segment per draw, and each draw takes
    one position of its segment. The rotation makes all positions equally likely; the segments make draws distinct and
    spread them out. Draws are in columns ``first`` … ``first + drawn − 1``; other columns are valid but meaningless.
    ``turned_place`` and ``around`` (where rotating back passes the end) are [B, L], the others [B, 1].
    """

    first: Tensor
    drawn: Tensor
    available: Tensor
    turn: Tensor
    turned_place: Tensor
    around: Tensor

    @classmethod
    def draw(cls, key: Tensor, first: Tensor, drawn: Tensor, available: Tensor, columns: int) -> "Spread":
        """Draw for L = ``columns`` columns; ``key`` [B] seeds each row."""
        share = random_fractions(key, columns + 1)
        first, drawn, available = (part.unsqueeze(1).double() for part in (first, drawn, available))
        # One extra column: the end of a segment is the start of the next one. Its random number gives the rotation.
        slot = torch.arange(columns + 1, device=key.device, dtype=torch.float64) - first
        slot = slot.clamp_(min=torch.zeros_like(drawn), max=drawn)
        cut = slot.mul_(available).div_(drawn.clamp_min(1.0)).floor_()
        turn = (share[:, -1:] * available).floor_()
        turned = cut.diff(dim=1).mul_(share[:, :-1]).floor_().add_(cut[:, :-1])
        return cls(first, drawn, available, turn, turned, turned >= available - turn)

    def turn_back_(self, added: Tensor) -> Tensor:
        """``added`` [B, L] + the positions, in place."""
        return added.add_(self.turned_place).add_(self.turn).addcmul_(self.around, self.available, value=-1.0)


def irrelevant_items(relevance: Relevance, local: Tensor, spread: Spread) -> Tensor:
    """[B, L]: the item at each position among those not taken by the query, as an offset from the start of its list."""
    start, stop = relevance.taken_indptr[local], relevance.taken_indptr[local + 1]
    # Both give the same items. Merging reads all taken items of the batch once; searching takes a fixed number of steps
    # per position without a host transfer, which suits a GPU.
    if local.device.type == "cpu" and not torch.compiler.is_compiling():
        total = int((stop - start).sum())
        if total <= 8 * spread.turned_place.numel():
            return spread.turn_back_(taken_before_by_merge(relevance, local, start, spread)).long()
    return spread.turn_back_(taken_before_by_search(relevance, local, start, stop, spread).double()).long()


def taken_before_by_search(relevance: Relevance, local: Tensor, start: Tensor, stop: Tensor, spread: Spread) -> Tensor:
    """Number of taken items before each position.

    The j-th taken item c_j of a list has c_j − j untaken items before it, so it precedes the r-th untaken item if and
    only if c_j − j ≤ r; c_j − j is non-decreasing, so bisection finds their number.
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
    """The same, as float64, by counting the first draw after each taken item; O(taken + positions)."""
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
    inside = turned < limit  # the others are after all untaken items
    wrapped = turned < 0
    turned.addcmul_(wrapped, available)
    # The draw with the segment of this position, or the next draw if the drawn position is smaller.
    cell = cell.add_(drawn.mul_(turned + 1.0).sub_(1.0).div_(available).floor_()).mul_(inside).long()
    later = spread.turned_place.view(-1).index_select(0, cell) < turned
    nowhere = rows * (columns + 1)  # each row has one more bin than cells, for items after its last draw
    bins = torch.where(inside, cell.add_(row).add_(later), nowhere)
    counts = torch.bincount(bins, weights=torch.ones_like(turned), minlength=nowhere + 1)
    before = counts[:nowhere].view(rows, columns + 1).cumsum_(1)
    wraps = torch.bincount(row, weights=wrapped.double(), minlength=rows).unsqueeze(1)
    within = before[:, columns:].clone()
    return before[:, :columns].add_(wraps).addcmul_(spread.around, within, value=-1.0)
