"""Pairs of a query and an item as integer keys query · num_items + item, and operations on sorted keys."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from songrank.core.checks import fail
from songrank.core.csr import CSR

Numbers = TypeVar("Numbers", Tensor, np.ndarray[Any, Any])


def pack(query: Numbers, item: Numbers, num_items: int) -> Numbers:
    """The key of each pair; queries are int64."""
    keys: Numbers = query * num_items + item
    return keys


def unpack(keys: Tensor, num_items: int) -> tuple[Tensor, Tensor]:
    """The query and the item of each key."""
    return (keys // num_items, keys % num_items) if num_items else (keys, keys)


def check_size(num_queries: int, num_items: int) -> None:
    """Raise if keys would not fit int64, or items int32."""
    if num_queries * num_items >= 2**63 or num_items >= 2**31:
        fail("num_items", num_items, "ids counted from 0 without gaps; map yours to such ids first")


def check_keys(argument: str, keys: Tensor | None, most: int) -> None:
    """Raise unless these are distinct ascending keys below ``most``."""
    if keys is None or keys.numel() == 0:
        return
    if keys.dtype != torch.int64 or not bool((keys[1:] > keys[:-1]).all()):
        fail(argument, "not ascending", "int64 keys in ascending order, each once")
    if int(keys[0]) < 0 or int(keys[-1]) >= most:
        fail(argument, (int(keys[0]), int(keys[-1])), f"keys from 0 to {most - 1}, num_queries · num_items of them")


def check_distinct(keys: Tensor, num_items: int, problem: str, order: Tensor | None = None) -> None:
    """Raise if a sorted key occurs twice; ``order`` holds positions before sorting, for the message."""
    twice = keys[1:] == keys[:-1]
    if bool(twice.any()):
        at = int(twice.nonzero()[0])
        query, item = divmod(int(keys[at]), num_items)
        where = "" if order is None else f", rows {sorted([int(order[at]), int(order[at + 1])])}"
        raise ValueError(f"pair (query={query}, item={item}{where}) {problem}")


def sorted_keys(query: Tensor, item: Tensor, num_items: int, what: str) -> tuple[Tensor, Tensor | None]:
    """Distinct keys in ascending order, and their positions before sorting; None if they were sorted."""
    keys = pack(query, item, num_items)
    if bool((keys[1:] > keys[:-1]).all()):
        return keys, None
    keys, order = keys.sort()
    check_distinct(keys, num_items, f"stands twice; each {what} may be given once", order)
    return keys, order


def last_of_equal(keys: Tensor) -> Tensor:
    """Whether each sorted key is the last of its value."""
    last = torch.ones_like(keys, dtype=torch.bool)
    last[:-1] = keys[1:] != keys[:-1]
    return last


def table_keys(pairs: CSR, num_items: int) -> Tensor:
    """The key of each entry of a table of items by query, in the table's order and with its repetitions."""
    item = pairs["item"]
    if item.numel() and not 0 <= int(item.min()) <= int(item.max()) < num_items:
        fail("item", "outside the catalogue", f"numbers from 0 to {num_items - 1}")
    return pack(pairs.row_of_entries(), item, num_items)


def key_table(keys: Tensor, num_queries: int, num_items: int) -> tuple[Tensor, Tensor]:
    """Bounds of each query [Q + 1] and the items as int32, of keys in ascending order.

    >>> key_table(torch.tensor([4, 11, 12]), num_queries=3, num_items=5)
    (tensor([0, 1, 1, 3]), tensor([4, 1, 2], dtype=torch.int32))
    """
    bounds = torch.arange(num_queries + 1, device=keys.device)
    indptr = torch.searchsorted(keys, pack(bounds, torch.zeros_like(bounds), num_items))
    return indptr, unpack(keys, num_items)[1].to(torch.int32)


def latest_pairs(pairs: CSR, num_items: int) -> tuple[Tensor, Tensor]:
    """The distinct keys in ascending order and their labels; of repeated pairs the last counts."""
    key, order = table_keys(pairs, num_items).sort(stable=True)
    last = last_of_equal(key)
    return key[last], pairs["label"][order[last]]


def merge(few: Tensor, many: Tensor) -> Tensor:
    """Two sorted tensors as one, by searching the places of the ``few``."""
    place = torch.searchsorted(many, few) + torch.arange(few.shape[0], device=few.device)
    rest = torch.ones(few.shape[0] + many.shape[0], dtype=torch.bool, device=few.device)
    both = torch.empty_like(rest, dtype=few.dtype)
    both[place], rest[place] = few, False
    both[rest] = many
    return both


def without(keys: Tensor, others: Tensor) -> Tensor:
    """Sorted distinct keys that are not among the sorted ``others``."""
    if not keys.numel():
        return keys
    at = torch.searchsorted(keys, others).clamp_(max=keys.numel() - 1)
    kept = torch.ones_like(keys, dtype=torch.bool)
    kept[at[keys[at] == others]] = False
    return keys[kept]
