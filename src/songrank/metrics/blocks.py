"""Lists, padded or concatenated, as blocks of a bounded number of cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_same_shape, fail
from songrank.core.csr import offsets
from songrank.core.errors import NotFiniteError
from songrank.core.gains import Gain
from songrank.core.processes import ALONE, Processes
from songrank.functional.ranks import rank_span
from songrank.metrics.evaluation import Tally
from songrank.metrics.names import Metric
from songrank.metrics.spans import Spans

CPU_CELLS, GPU_CELLS = 2**17, 2**22
"""Cells per block, padding included, about 100 bytes each: twice as fast on a CPU if they stay in cache."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Validated input: Q lists in ``scores`` and ``labels``, [Q, L] with a mask or flat with ``lengths``.

    ``shape`` holds the leading axes, the shape of one value per list.
    """

    scores: Tensor
    labels: Tensor
    mask: Tensor | None
    lengths: Tensor | None
    shape: torch.Size

    @property
    def present(self) -> Tensor:
        """[Q]: whether each list has an item."""
        if self.lengths is not None:
            return self.lengths > 0
        if self.mask is not None:
            return self.mask.any(-1)
        rows, columns = self.scores.shape
        return torch.full((rows,), columns > 0, dtype=torch.bool, device=self.scores.device)

    def tally(self, metrics: Sequence[Metric], ties: str, gain: Gain, processes: Processes = ALONE) -> Tally:
        """Compute the metrics of all lists, or of the blocks of one of several processes, ranking each list once."""
        tally = Tally(metrics, self.present, gain)
        for row, spans in self.blocks(ties, processes=processes):
            tally.add(row, spans)
        return tally

    def blocks(
        self, ties: str, cells: int | None = None, processes: Processes = ALONE
    ) -> Iterator[tuple[Tensor, Spans]]:
        """(lists, positions of their relevant items), for all lists with an item and possibly some without.

        Blocks are shared by the processes.
        """
        if cells is None:
            cells = CPU_CELLS if self.scores.device.type == "cpu" else GPU_CELLS
        pieces = _padded(self, cells, processes) if self.lengths is None else _ragged(self, cells, processes)
        for row, scores, labels, mask in pieces:
            scores, labels = scores.double(), labels.double()
            _check_values(row, scores, labels, mask)
            first, last = rank_span(scores, mask=mask, ties=ties)
            relevant = mask & (labels > 0)
            label = torch.where(relevant, labels, torch.zeros_like(labels))
            yield row, Spans(first if ties == "average" else last, last, label, relevant, mask.sum(-1))


def read_lists(
    scores: Tensor, labels: Tensor, mask: Tensor | None = None, lengths: Tensor | Sequence[int] | None = None
) -> Lists:
    """Check shapes and types of a metric's input; values are checked per block."""
    for name, tensor in (("scores", scores), ("labels", labels)):
        if not isinstance(tensor, Tensor):
            fail(name, type(tensor).__name__, "a tensor", TypeError)
    check_same_shape("labels", labels, "scores", scores)
    scores, labels = scores.detach(), labels.detach()
    if lengths is not None:
        return Lists(scores, labels, None, *_read_lengths(scores, mask, lengths))
    if scores.dim() == 0:
        fail("scores", "a scalar", "a tensor of shape [..., L]")
    shape, size = scores.shape[:-1], scores.shape[-1]
    if mask is not None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            fail("mask", mask.dtype if isinstance(mask, Tensor) else type(mask).__name__, "a bool tensor", TypeError)
        check_same_shape("mask", mask, "scores", scores)
        mask = mask.reshape(shape.numel(), size)
    return Lists(scores.reshape(shape.numel(), size), labels.reshape(shape.numel(), size), mask, None, shape)


def _read_lengths(scores: Tensor, mask: Tensor | None, lengths: Tensor | Sequence[int]) -> tuple[Tensor, torch.Size]:
    if mask is not None:
        fail("mask and lengths", "both given", "one of them: mask for padded lists, lengths for concatenated lists")
    if scores.dim() != 1:
        fail("scores", f"of shape {list(scores.shape)}", "one dimension with lengths")
    sizes = torch.as_tensor(lengths, device=scores.device)
    if sizes.dim() != 1:
        fail("lengths", f"of shape {list(sizes.shape)}", "one dimension")
    if sizes.numel() and (sizes.is_floating_point() or sizes.is_complex() or sizes.dtype == torch.bool):
        fail("lengths", f"of type {sizes.dtype}", "whole numbers", TypeError)
    sizes = sizes.long()
    if sizes.numel() and int(sizes.min()) < 0:
        at = int((sizes < 0).nonzero()[0])
        fail(f"lengths[{at}]", int(sizes[at]), "a number of at least 0")
    if int(sizes.sum()) != scores.shape[0]:
        fail("lengths", f"a total of {int(sizes.sum())}", f"a total equal to the number of scores, {scores.shape[0]}")
    return sizes, sizes.shape


def _padded(lists: Lists, cells: int, processes: Processes) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    rows, size = lists.scores.shape
    if size == 0:
        return
    step = max(1, cells // size)
    for begin in processes.share(range(0, rows, step)):
        part = slice(begin, min(begin + step, rows))
        scores = lists.scores[part]
        mask = torch.ones_like(scores, dtype=torch.bool) if lists.mask is None else lists.mask[part]
        yield torch.arange(part.start, part.stop, device=scores.device), scores, lists.labels[part], mask


def _ragged(lists: Lists, cells: int, processes: Processes) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    lengths = lists.lengths
    assert lengths is not None
    # In descending order of length: each block is padded to its first list, so one long list pads few others.
    size, order = lengths.sort(descending=True, stable=True)
    start = offsets(lengths)
    blocks, begin, end = [], 0, int((lengths > 0).sum())
    while begin < end:
        longest = int(size[begin])
        blocks.append((longest, order[begin : min(end, begin + max(1, cells // longest))]))
        begin += blocks[-1][1].shape[0]
    for longest, row in processes.share(blocks):
        place = torch.arange(longest, device=lengths.device)
        mask = place < lengths[row].unsqueeze(-1)
        at = torch.where(mask, start[row].unsqueeze(-1) + place, torch.zeros_like(place))
        yield row, lists.scores[at], lists.labels[at], mask


def _check_values(row: Tensor, scores: Tensor, labels: Tensor, mask: Tensor) -> None:
    for name, values, bad, expected, error in (
        ("scores", scores, scores.isnan(), "a number", NotFiniteError),
        ("labels", labels, ~(labels.isfinite() & (labels >= 0)), "a finite number of at least 0", ValueError),
    ):
        wrong = mask & bad
        if bool(wrong.any()):
            at, place = wrong.nonzero()[0].tolist()
            fail(f"{name} of list {int(row[at])}, item {place}", float(values[at, place]), expected, error)
