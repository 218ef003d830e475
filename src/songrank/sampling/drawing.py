"""Drawing by one kernel on a GPU: the slates of a catalogue's sampler, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from songrank import kernels
from songrank.core.csr import search_depth
from songrank.core.slate import Slate

if TYPE_CHECKING:
    from songrank.sampling.slate_sampler import SlateSampler

_WIDEST = 4096  # columns that one row of the kernel keeps in registers


def serves(sampler: SlateSampler) -> bool:
    """Whether the kernel draws what this sampler draws, here."""
    relevance = sampler.relevance
    if relevance.device.type != "cuda" or sampler.irrelevant == "all" or sampler.length is not None:
        return False
    simple = relevance.list_start is None and relevance.label.dtype == torch.float32
    return simple and sampler.columns <= _WIDEST and kernels.usable(relevance.item)


def draw(sampler: SlateSampler, query: Tensor, epoch: int) -> Slate:
    """The slate of these queries in this epoch, as :meth:`SlateSampler.draw` gives it."""
    parts = _parts(sampler, query.shape[0])
    keys = torch.stack([query.new_full((), key) for key in sampler.keys(epoch)])  # filled there, not sent
    _launch(sampler, query, keys.new_zeros(1), keys, parts)
    if sampler.query_weight is None:
        parts["row_weight"] = None
    return _slate(sampler, parts)


class Drawing:
    """The batches of a sampler's epoch, one after the other, into one and the same slate.

    Where it stands is read on the device, so that a recorded :meth:`next` moves on with each replay.

    Args:
        sampler: one that :func:`serves` says yes to, with ``partial="pad"``.

    """

    def __init__(self, sampler: SlateSampler) -> None:
        self.sampler, device = sampler, sampler.relevance.device
        self.order = torch.empty(len(sampler) * sampler.queries_per_batch, dtype=torch.int64, device=device)
        self.keys = torch.empty(2, dtype=torch.int64, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.parts = _parts(sampler, sampler.queries_per_batch)

    def begin(self) -> None:
        """Go to where the sampler stands."""
        sampler = self.sampler
        order = sampler.order(sampler.epoch)
        self.order[: order.shape[0]] = order
        self.order[order.shape[0] :] = -1 - order[(len(sampler) - 1) * sampler.queries_per_batch]  # padding
        self.keys.copy_(torch.tensor(sampler.keys(sampler.epoch)))
        self.at.fill_(sampler.position)

    def next(self) -> Slate:
        """Draw the next batch; what it is made of is overwritten by the one after it."""
        _launch(self.sampler, self.order, self.at, self.keys, self.parts)
        self.at.add_(self.sampler.queries_per_batch)
        return _slate(self.sampler, self.parts)


def _relevant(sampler: SlateSampler) -> int:
    return sampler.relevance.max_relevant if sampler.relevant == "all" else int(sampler.relevant)


def _parts(sampler: SlateSampler, rows: int) -> dict[str, Any]:
    """What the kernel writes, in its order."""
    whole: dict[str, Any] = {"dtype": torch.int64, "device": sampler.relevance.device}
    real: dict[str, Any] = {"dtype": torch.float32, "device": sampler.relevance.device}
    columns = sampler.columns
    return {
        "query": torch.empty(rows, **whole),
        "item": torch.empty(rows, columns, **whole),
        "label": torch.empty(rows, columns, **real),
        "mask": torch.empty(rows, columns, dtype=torch.bool, device=whole["device"]),
        "pair": torch.empty(rows, _relevant(sampler), **whole),
        "list_size": torch.empty(rows, **whole),
        "num_relevant": torch.empty(rows, **whole),
        "ideal_dcg": torch.empty(rows, **real),
        "row_weight": torch.empty(rows, **real),
    }


def _launch(sampler: SlateSampler, order: Tensor, at: Tensor, keys: Tensor, parts: dict[str, Any]) -> None:
    from songrank.kernels.draw import draw_rows

    relevance, weight, columns, relevant = (
        sampler.relevance,
        sampler.query_weight,
        sampler.columns,
        _relevant(sampler),
    )
    with kernels.on_device_of(order):
        draw_rows[(parts["query"].shape[0],)](
            order,
            at,
            keys,
            relevance.query_range[0],
            relevance.pair_range[0],
            sampler.num_relevant,
            sampler.list_size,
            sampler.ideal_dcg,
            sampler.ideal_dcg if weight is None else weight,
            relevance.indptr,
            relevance.item,
            relevance.label,
            relevance.taken_indptr,
            relevance.taken_item,
            *parts.values(),
            R=relevant,
            columns=columns,
            DEPTH=search_depth(relevance.max_taken),
            WEIGHTED=weight is not None,
            ALL=sampler.relevant == "all",
            BR=_power_of_2(relevant),
            BC=_power_of_2(columns),
        )


def _slate(sampler: SlateSampler, parts: dict[str, Any]) -> Slate:
    return Slate(**parts, k=sampler.k, gain=sampler.gain, complete=True)


def _power_of_2(size: int) -> int:
    return 1 << (size - 1).bit_length()
