"""Pairs of a query and an item as one whole number, the key query · num_items + item, and tensors of sorted keys."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from songrank.core.checks import fail
from songrank.core.csr import CSR

Numbers = TypeVar("Numbers", Tensor, np.ndarray[Any, Any])


def pack(query: Numbers, item: Numbers, num_items: int) -> Numbers:
    """The key of each pair; queries are int64.

    >>> pack(torch.tensor([0, 2]), torch.tensor([4, 1]), num_items=5).tolist()
    [4, 11]
    """
    keys: Numbers = query * num_items + item
    return keys


def unpack(keys: Tensor, num_items: int) -> tuple[Tensor, Tensor]:
    """The query and the item of each key.

    >>> [part.tolist() for part in unpack(torch.tensor([4, 11]), num_items=5)]
    [[0, 2], [4, 1]]
    """
    return (keys // num_items, keys % num_items) if num_items else (keys, keys)


def check_size(num_queries: int, num_items: int) -> None:
    """Raise if keys would not fit int64, or items int32."""
    if num_queries * num_items >= 2**63 or num_items >= 2**31:
        fail("num_items", num_items, "ids counted from 0 without gaps; map yours to such ids first")


def check_keys(argument: str, keys: Tensor | None, most: int) -> None:
    """Raise unless these are keys below ``most``, ascending, each once."""
    if keys is None or keys.numel() == 0:
        return
    if keys.dtype != torch.int64 or not bool((keys[1:] > keys[:-1]).all()):
        fail(argument, "not ascending", "int64 keys in ascending order, each once")
    if int(keys[0]) < 0 or int(keys[-1]) >= most:
        fail(argument, (int(keys[0]), int(keys[-1])), f"keys from 0 to {most - 1}, num_queries · num_items of them")


def check_distinct(keys: Tensor, num_items: int, problem: str, order: Tensor | None = None) -> None:
    """Raise if a key occurs twice among sorted ones; ``order`` is where they stood before they were sorted."""
    twice = keys[1:] == keys[:-1]
    if bool(twice.any()):
        at = int(twice.nonzero()[0])
        query, item = divmod(int(keys[at]), num_items)
        where = "" if order is None else f", rows {sorted([int(order[at]), int(order[at + 1])])}"
        raise ValueError(f"pair (query={query}, item={item}{where}) {problem}")


def sorted_keys(query: Tensor, item: Tensor, num_items: int, what: str) -> tuple[Tensor, Tensor | None]:
    """Distinct keys in ascending order, and where they stood; None where they stood like that."""
    keys = pack(query, item, num_items)
    if bool((keys[1:] > keys[:-1]).all()):
        return keys, None
    keys, order = keys.sort()
    check_distinct(keys, num_items, f"stands twice; each {what} may be given once", order)
    return keys, order


def last_of_equal(keys: Tensor) -> Tensor:
    """Which of sorted keys are followed by another one, or by none.

    >>> last_of_equal(torch.tensor([3, 3, 8])).tolist()
    [False, True, True]
    """
    last = torch.ones_like(keys, dtype=torch.bool)
    last[:-1] = keys[1:] != keys[:-1]
    return last


def table_keys(pairs: CSR, num_items: int) -> Tensor:
    """The key of each entry of a table of items by query, as they stand: repeated pairs as often as they occur."""
    item = pairs["item"]
    if item.numel() and not 0 <= int(item.min()) <= int(item.max()) < num_items:
        fail("item", "outside the catalogue", f"numbers from 0 to {num_items - 1}")
    return pack(pairs.row_of_entries(), item, num_items)


def key_table(keys: Tensor, num_queries: int, num_items: int) -> CSR:
    """The table of items by query, column ``item`` int32, of keys in ascending order; the inverse of :func:`table_keys`.

    >>> table = key_table(torch.tensor([4, 11, 12]), num_queries=3, num_items=5)
    >>> table.lengths.tolist(), table["item"].tolist()
    ([1, 0, 2], [4, 1, 2])
    """
    bounds = torch.arange(num_queries + 1, device=keys.device)
    offsets = torch.searchsorted(keys, pack(bounds, torch.zeros_like(bounds), num_items))
    return CSR(offsets, {"item": unpack(keys, num_items)[1].to(torch.int32)})


def latest_pairs(pairs: CSR, num_items: int) -> tuple[Tensor, Tensor]:
    """The key of each pair once, in order, and its label; of repeated pairs the last.

    >>> latest_pairs(CSR.from_lengths([2, 1], item=[3, 3, 0], label=[1.0, 2.0, 5.0]), num_items=4)
    (tensor([3, 4]), tensor([2., 5.]))
    """
    key, order = table_keys(pairs, num_items).sort(stable=True)
    last = last_of_equal(key)
    return key[last], pairs["label"][order[last]]


def merge(few: Tensor, many: Tensor) -> Tensor:
    """Two sorted tensors as one.

    >>> merge(torch.tensor([2, 9]), torch.tensor([1, 5])).tolist()
    [1, 2, 5, 9]
    """
    place = torch.searchsorted(many, few) + torch.arange(few.shape[0], device=few.device)
    rest = torch.ones(few.shape[0] + many.shape[0], dtype=torch.bool, device=few.device)
    both = torch.empty_like(rest, dtype=few.dtype)
    both[place], rest[place] = few, False
    both[rest] = many
    return both


def without(keys: Tensor, others: Tensor) -> Tensor:
    """Sorted distinct keys that are not among the sorted ``others``.

    >>> without(torch.tensor([1, 5, 7]), torch.tensor([5, 6])).tolist()
    [1, 7]
    """
    if not keys.numel():
        return keys
    at = torch.searchsorted(keys, others).clamp_(max=keys.numel() - 1)
    kept = torch.ones_like(keys, dtype=torch.bool)
    kept[at[keys[at] == others]] = False
    return keys[kept]
