"""Draw the slates of a catalogue sampler by one GPU kernel, bit-exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from songrank import kernels
from songrank.core.csr import search_depth
from songrank.core.slate import Slate

if TYPE_CHECKING:
    from songrank.sampling.slate_sampler import SlateSampler

_WIDEST = 4096  # columns per row that the kernel keeps in registers


def serves(sampler: SlateSampler) -> bool:
    """Whether the kernel supports this sampler on this device."""
    relevance = sampler.relevance
    fits = sampler.irrelevant != "all" and sampler.length is None and sampler.columns <= _WIDEST
    plain = relevance.list_start is None and relevance.label.dtype == torch.float32
    return fits and plain and kernels.usable(relevance.item)


def draw(sampler: SlateSampler, query: Tensor, epoch: int) -> Slate:
    """The slate of these queries in this epoch, equal to that of :meth:`SlateSampler.draw`."""
    parts = _parts(sampler, query.shape[0])
    keys = torch.stack([query.new_full((), key) for key in sampler.keys(epoch)])  # filled on the device, not copied
    _launch(sampler, query, keys.new_zeros(1), keys, parts)
    if sampler.query_weight is None:
        parts["row_weight"] = None
    return _slate(sampler, parts)


class Drawing:
    """Draws the padded batches of an epoch in sequence into the same slate, for supported samplers.

    The position is read on the device, so that a captured :meth:`next` advances with each replay.
    """

    def __init__(self, sampler: SlateSampler) -> None:
        self.sampler, device = sampler, sampler.relevance.device
        self.rows = sampler.rows_here
        self.order = torch.empty(len(sampler) * self.rows, dtype=torch.int64, device=device)
        self.keys = torch.empty(2, dtype=torch.int64, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.parts = _parts(sampler, self.rows)

    def begin(self) -> None:
        """Move to the sampler's position."""
        sampler = self.sampler
        self.order.copy_(sampler.padded_order(sampler.epoch))
        self.keys.copy_(torch.tensor(sampler.keys(sampler.epoch)))
        self.at.fill_(sampler.position // sampler.queries_per_batch * self.rows)

    def next(self) -> Slate:
        """Draw the next batch; its tensors are overwritten by the following one."""
        _launch(self.sampler, self.order, self.at, self.keys, self.parts)
        self.at.add_(self.rows)
        return _slate(self.sampler, self.parts)


def _parts(sampler: SlateSampler, rows: int) -> dict[str, Any]:
    """Outputs of the kernel, in its order."""
    whole: dict[str, Any] = {"dtype": torch.int64, "device": sampler.relevance.device}
    real, flag = whole | {"dtype": torch.float32}, whole | {"dtype": torch.bool}
    return {
        "query": torch.empty(rows, **whole),
        "item": torch.empty(rows, sampler.columns, **whole),
        "label": torch.empty(rows, sampler.columns, **real),
        "mask": torch.empty(rows, sampler.columns, **flag),
        "pair": torch.empty(rows, sampler.pair_columns, **whole),
        "list_size": torch.empty(rows, **whole),
        "num_relevant": torch.empty(rows, **whole),
        "ideal_dcg": torch.empty(rows, **real),
        "row_weight": torch.empty(rows, **real),
    }


def _launch(sampler: SlateSampler, order: Tensor, at: Tensor, keys: Tensor, parts: dict[str, Any]) -> None:
    from songrank.kernels.draw import draw_rows

    relevance, weight, width = sampler.relevance, sampler.query_weight, sampler.pair_columns
    begin = relevance.query_range[0], relevance.pair_range[0]
    counts = sampler.num_relevant, sampler.list_size, sampler.ideal_dcg
    table = relevance.indptr, relevance.item, relevance.label, relevance.taken_indptr, relevance.taken_item
    sizes = {"R": width, "columns": sampler.columns, "DEPTH": search_depth(relevance.max_taken)}
    flags = {"WEIGHTED": weight is not None, "ALL": sampler.relevant == "all"}
    blocks = {"BR": _power_of_2(width), "BC": _power_of_2(sampler.columns)}
    given = (*begin, *counts, sampler.ideal_dcg if weight is None else weight, *table, *parts.values())
    with kernels.on_device_of(order):
        draw_rows[(parts["query"].shape[0],)](order, at, keys, *given, **sizes, **flags, **blocks)


def _slate(sampler: SlateSampler, parts: dict[str, Any]) -> Slate:
    return Slate(**parts, k=sampler.k, gain=sampler.gain, complete=True)


def _power_of_2(size: int) -> int:
    return 1 << (size - 1).bit_length()
