"""Ridge regressions of each item on other items, in closed form: the weights of EASE and of its sparse form.

X is the binary matrix of users and items, and G = XᵀX counts the users who have both of two items. Sources: Steck,
*Embarrassingly Shallow Autoencoders for Sparse Data*, WWW 2019; regressions on few items as in Ning and Karypis,
*SLIM: Sparse Linear Methods for Top-N Recommender Systems*, ICDM 2011, without L1 norm and constraint.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from songrank.core.csr import CSR

_ENTRIES = 2**22  # of expanded histories at a time
_COLUMNS = 256  # of a dense part of X at a time
_PAIR_COST = 160  # of an entry of an expanded history, in additions to a dense row
_CELLS = 2**22  # of normal equations at a time
_KEPT_CELLS = 2**28  # of normal equations to keep for the next λ
_COUNTS = 2**31  # of G at a time, in regressions on few items
_SMALL = 512  # items that are inverted at once, in float64
_TILE = 256  # rows and columns that are transposed at a time
_EXACT = 3_000  # items up to which float64 takes seconds
_RESIDUAL = 1e-3  # of an inverse in float32, relative


def co_occurrence(rows: CSR, num_items: int) -> Tensor:
    """G = XᵀX of histories in which an item occurs once, in float32, which is exact below 2²⁴.

    >>> co_occurrence(CSR.from_lengths([2, 1], item=[0, 1, 1]), num_items=2)
    tensor([[1., 1.],
            [1., 2.]])
    """
    counts = torch.empty(num_items, num_items)
    for first, block in _count_blocks(rows, num_items):
        counts[first : first + block.shape[0]] = block
    return counts


def _count_blocks(rows: CSR, num_items: int) -> Iterator[tuple[int, Tensor]]:
    """Consecutive rows of G, with the number of the first one."""
    item, order = rows["item"].long().sort(stable=True)
    by_item = CSR.from_rows(item, num_items, query=rows.row_of_entries()[order])
    if _PAIR_COST * int((rows.lengths**2).sum()) < rows.num_entries * num_items:
        return _pair_blocks(rows, by_item, num_items)
    return _dense_blocks(by_item, len(rows), num_items)


def _dense_blocks(by_item: CSR, num_rows: int, num_items: int) -> Iterator[tuple[int, Tensor]]:
    """By sums of rows of dense parts of X: entries × N additions."""
    for first in range(0, num_items, _COLUMNS):
        part = by_item.slice(first, min(first + _COLUMNS, num_items))
        columns = torch.zeros(num_rows, len(part))
        columns[part["query"], part.row_of_entries()] = 1.0
        yield first, embedding_bag(by_item["query"], columns, by_item.offsets[:-1], mode="sum").T.contiguous()


def _pair_blocks(rows: CSR, by_item: CSR, num_items: int) -> Iterator[tuple[int, Tensor]]:
    """By counting pairs of items in histories: Σ |H|² operations."""
    work = torch.nn.functional.pad(rows.lengths[by_item["query"]].cumsum(0), (1, 0))[by_item.offsets]
    first = 0
    while first < num_items:
        last = int(torch.searchsorted(work, work[first] + _ENTRIES, right=True)) - 1
        last = min(max(first + 1, last), first + _COLUMNS, num_items)
        part = by_item.slice(first, last)
        entry, at = rows.entries(part["query"])
        key = (part.row_of_entries() * num_items)[entry] + rows["item"][at]
        counts = torch.zeros((last - first) * num_items)
        yield first, counts.index_add_(0, key, torch.ones(key.shape[0])).view(-1, num_items)
        first = last


def all_item_weights(counts: Tensor, regularisation: float) -> Tensor:
    """B [N, N] of EASE in float32, from G and λ; column i is the regression of item i on all others.

        P = (G + λI)⁻¹,   B = I − P · diag(1 / diag P)

    P of many items is computed in float32, or in float64 if its residual is large.

    >>> all_item_weights(torch.tensor([[1.0, 1.0], [1.0, 2.0]]), regularisation=1.0)
    tensor([[0.0000, 0.5000],
            [0.3333, 0.0000]])
    """
    inverse = _inverse(counts, regularisation, torch.float32) if counts.shape[0] > _EXACT else None
    if inverse is None or not _is_inverse(counts, regularisation, inverse):
        inverse = _inverse(counts, regularisation, torch.float64)
    scale = -1.0 / inverse.diagonal()
    weights = inverse.mul_(scale).to(torch.float32, memory_format=torch.contiguous_format)
    weights.diagonal().zero_()
    return weights


def _inverse(counts: Tensor, regularisation: float, dtype: torch.dtype) -> Tensor:
    matrix = counts.to(dtype, copy=True)
    matrix.diagonal().add_(regularisation)
    _invert(matrix)
    return matrix


def _invert(matrix: Tensor) -> None:
    """Invert a positive definite matrix in place, by blocks: about N³ operations, nearly all in matrix products."""
    size = matrix.shape[0]
    if size <= _SMALL:
        matrix.copy_(torch.linalg.inv_ex(matrix.double()).inverse)
        return
    half = size // 2
    first, both, last = matrix[:half, :half], matrix[:half, half:], matrix[half:, half:]
    _invert(first)
    reach = first @ both
    _add_symmetric_product(last, both.T, reach, -1.0)  # the Schur complement
    _invert(last)
    torch.mm(reach, last, out=both)
    _add_symmetric_product(first, both, reach.T, 1.0)
    both.neg_()
    _set_transposed(matrix[half:, :half], both)


def _add_symmetric_product(total: Tensor, left: Tensor, right: Tensor, factor: float) -> None:
    """Add factor · left @ right, a symmetric matrix, to a symmetric one; blocks below the diagonal are copied."""
    size = total.shape[0]
    for begin in range(0, size, 2 * _SMALL):
        end = min(begin + 2 * _SMALL, size)
        total[:end, begin:end].addmm_(left[:end], right[:, begin:end], alpha=factor)
        _set_transposed(total[begin:end, :begin], total[:begin, begin:end])


def _set_transposed(target: Tensor, source: Tensor) -> None:
    """Copy the transposed source, by tiles that fit a cache."""
    for rows, columns in zip(torch.split(target, _TILE), torch.split(source, _TILE, dim=1), strict=True):
        for tile, other in zip(torch.split(rows, _TILE, dim=1), torch.split(columns, _TILE), strict=True):
            tile.copy_(other.T)


def _is_inverse(counts: Tensor, regularisation: float, inverse: Tensor) -> bool:
    """Whether (G + λI) P z = z up to rounding, for random vectors z."""
    some = torch.randn(counts.shape[0], 4, generator=torch.Generator().manual_seed(0))
    found = inverse @ some
    found = counts @ found + regularisation * found
    return bool((found - some).norm() <= _RESIDUAL * some.norm())


class FewItemRegressions:
    """Regressions of each item i on the K items S with the largest cosine G_ij / √(G_ii G_jj), without itself:

        b_i = (G_SS + λI)⁻¹ G_Si

    Args:
        rows: histories; an item occurs once in each.
        num_items: N.
        neighbours: K, less than N.

    ``neighbours`` [N, K] has S of each item, by descending cosine.

    >>> few = FewItemRegressions(CSR.from_lengths([2, 1, 3], item=[0, 1, 1, 0, 1, 2]), num_items=3, neighbours=1)
    >>> few.neighbours.T, few.solve(regularisation=1.0)[0].T
    (tensor([[1, 0, 0]], dtype=torch.int32), tensor([[0.5000, 0.6667, 0.3333]]))
    """

    def __init__(self, rows: CSR, num_items: int, neighbours: int) -> None:
        self._rows, self.num_items, self.num_rows = rows, num_items, len(rows)
        self.item_counts = torch.bincount(rows["item"].long(), minlength=num_items)
        scale = self.item_counts.clamp_min(1).float().rsqrt()
        kind = torch.int16 if len(rows) < 2**15 else torch.int32
        whole = num_items**2 <= _COUNTS
        self._counts = torch.empty(num_items, num_items, dtype=kind) if whole else None
        self._kept: dict[int, list[_Equations]] = {}
        self.neighbours = torch.empty(num_items, neighbours, dtype=torch.int32)
        for first, counts in _count_blocks(rows, num_items):
            own = slice(first, first + counts.shape[0])
            if self._counts is not None:
                self._counts[own] = counts.to(kind)
            counts.mul_(scale)
            counts.diagonal(first).fill_(-1.0)
            self.neighbours[own] = counts.topk(neighbours, dim=1).indices.int()

    def counts(self) -> Tensor:
        """G [N, N] in float32."""
        return co_occurrence(self._rows, self.num_items) if self._counts is None else self._counts.float()

    def solve(self, regularisation: float, neighbours: int | None = None) -> tuple[Tensor, Tensor]:
        """Solve for b [N, K], or for the first ``neighbours`` of K, and for the explained part G_iS · b_i [N].

        The normal equations of few neighbours are kept for the next λ.
        """
        few = self.neighbours[:, :neighbours]
        width, threads = few.shape[1], torch.get_num_threads()
        found, explained = torch.empty(few.shape), torch.empty(self.num_items)
        kept, keeps = self._kept.get(width), few.shape[0] * width**2 <= _KEPT_CELLS
        gathered: list[_Equations] = []

        def solved(gather: Callable[[], _Equations]) -> tuple[Tensor, Tensor, Tensor]:
            equations = gather()
            if keeps:
                gathered.append(equations)
            return equations.items, *_regressions(equations.left, equations.right, regularisation)

        try:  # LAPACK is slower with several threads for matrices of this size
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                for block in self._equations(few) if kept is None else [[partial(_Equations, *one) for one in kept]]:
                    for items, weights, own in pool.map(solved, block):
                        found[items], explained[items] = weights, own
        finally:
            torch.set_num_threads(threads)
        if keeps:
            self._kept = {width: gathered}
        return found, explained

    def _equations(self, few: Tensor) -> Iterator[list[Callable[[], "_Equations"]]]:
        """Functions that gather the normal equations of some items, by block of items with the same part of G."""
        size = max(1, _CELLS // few.shape[1] ** 2)
        for items, known, counts in self._blocks(few):
            place = torch.full((self.num_items,), -1)
            place[known] = torch.arange(known.shape[0])
            parts = torch.split(items, size)
            yield [partial(_gather, counts, some, place[few[some].long()], place[some]) for some in parts]

    def _blocks(self, few: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Blocks of items, with these items and their neighbours, ascending, and G of the latter."""
        if self._counts is not None:
            everything = torch.arange(self.num_items)
            yield everything, everything, self._counts
            return
        most = int(_COUNTS**0.5) // 2
        for items in torch.split(torch.arange(self.num_items), max(1, most // (few.shape[1] + 1))):
            known = torch.cat([items, few[items].flatten().long()]).unique()  # type: ignore[no-untyped-call]
            place = torch.full((self.num_items,), -1)
            place[known] = torch.arange(known.shape[0])
            item = place[self._rows["item"].long()]
            row, kept = self._rows.row_of_entries(), item >= 0
            yield items, known, co_occurrence(CSR.from_rows(row[kept], len(self._rows), item=item[kept]), len(known))


class _Equations(NamedTuple):
    """G_SS [n, K, K] and G_Si [n, K] of the items [n]."""

    items: Tensor
    left: Tensor
    right: Tensor


def _gather(counts: Tensor, items: Tensor, own: Tensor, target: Tensor) -> _Equations:
    """The equations of items, from the positions in G of their neighbours [n, K] and of themselves [n]."""
    cells, row = counts.view(-1), own * counts.shape[1]
    return _Equations(items, cells[row.unsqueeze(2) + own.unsqueeze(1)], cells[row + target.unsqueeze(1)])


def _regressions(left: Tensor, right: Tensor, regularisation: float) -> tuple[Tensor, Tensor]:
    """The solutions b [n, K] of (G_SS + λI) b = G_Si, and the explained parts G_Si · b [n]."""
    matrix, right = left.to(torch.float32, copy=True), right.float().unsqueeze(2)
    matrix.diagonal(dim1=1, dim2=2).add_(regularisation)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed.any()):  # λ is too small for float32
        factor, right = torch.linalg.cholesky_ex(matrix.double()).L, right.double()
    found = torch.linalg.solve_triangular(factor, right, upper=False)
    explained = found.square().sum((1, 2))
    found = torch.linalg.solve_triangular(factor.mT, found, upper=True)
    return found.squeeze(2).float(), explained.float()
