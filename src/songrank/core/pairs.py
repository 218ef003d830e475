"""Query-item pairs as integer keys query · num_items + item, and operations on sorted keys."""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from songrank.core.checks import fail
from songrank.core.csr import CSR

_BLOCK_PAIRS, _BLOCK_ROWS = 1 << 18, 1 << 14  # sorted at once, within the cache
Numbers = TypeVar("Numbers", Tensor, np.ndarray[Any, Any])


def pack(query: Numbers, item: Numbers, num_items: int) -> Numbers:
    """The key of each pair; queries are int64."""
    keys: Numbers = query * num_items + item
    return keys


def unpack(keys: Tensor, num_items: int) -> tuple[Tensor, Tensor]:
    """The query and the item of each key."""
    return (keys // num_items, keys % num_items) if num_items else (keys, keys)


def check_size(num_queries: int, num_items: int) -> None:
    """Raise if keys would overflow int64, or items int32."""
    if num_queries * num_items >= 2**63 or num_items >= 2**31:
        fail("num_items", num_items, "consecutive ids from 0; remap ids first")


def check_keys(argument: str, keys: Tensor | None, most: int) -> None:
    """Raise unless keys are strictly ascending and below ``most``."""
    if keys is None or keys.numel() == 0:
        return
    if keys.dtype != torch.int64 or not bool((keys[1:] > keys[:-1]).all()):
        fail(argument, "not ascending", "strictly ascending int64 keys")
    if int(keys[0]) < 0 or int(keys[-1]) >= most:
        fail(argument, (int(keys[0]), int(keys[-1])), f"keys from 0 to num_queries · num_items − 1 = {most - 1}")


def check_distinct(keys: Tensor, num_items: int, problem: str, order: Tensor | None = None) -> None:
    """Raise if a sorted key is repeated; ``order`` holds positions before sorting, for the message."""
    twice = keys[1:] == keys[:-1]
    if bool(twice.any()):
        at = int(twice.nonzero()[0])
        query, item = divmod(int(keys[at]), num_items)
        where = "" if order is None else f", rows {sorted([int(order[at]), int(order[at + 1])])}"
        raise ValueError(f"pair (query={query}, item={item}{where}) {problem}")


def sorted_keys(query: Tensor, item: Tensor, num_items: int, what: str) -> tuple[Tensor, Tensor | None]:
    """Distinct sorted keys, and their positions before sorting; None if already sorted."""
    keys = pack(query, item, num_items)
    if bool((keys[1:] > keys[:-1]).all()):
        return keys, None
    keys, order = keys.sort()
    check_distinct(keys, num_items, f"is repeated; expected each {what} once", order)
    return keys, order


def last_of_equal(keys: Tensor) -> Tensor:
    """Mask of the last occurrence of each sorted key."""
    last = torch.ones_like(keys, dtype=torch.bool)
    last[:-1] = keys[1:] != keys[:-1]
    return last


def table_keys(pairs: CSR, num_items: int) -> Tensor:
    """The key of each entry of a table of items by query, in table order, including duplicates."""
    item = pairs["item"]
    if item.numel() and not 0 <= int(item.min()) <= int(item.max()) < num_items:
        fail("item", "out of range", f"numbers from 0 to {num_items - 1}")
    return pack(pairs.row_of_entries(), item, num_items)


def key_table(keys: Tensor, num_queries: int, num_items: int) -> tuple[Tensor, Tensor]:
    """Bounds of each query [Q + 1] and the items as int32, of keys in ascending order.

    >>> key_table(torch.tensor([4, 11, 12]), num_queries=3, num_items=5)
    (tensor([0, 1, 1, 3]), tensor([4, 1, 2], dtype=torch.int32))
    """
    bounds = torch.arange(num_queries + 1, device=keys.device)
    indptr = torch.searchsorted(keys, pack(bounds, torch.zeros_like(bounds), num_items))
    return indptr, unpack(keys, num_items)[1].to(torch.int32)


def sorted_rows(pairs: CSR, num_items: int) -> CSR | None:
    """Columns ``item`` and ``label`` with the items of each row in ascending order; None if they need another method.

    A CPU sorts integers of 64 bits without payload several times faster than pairs of a key and a position. A block of
    rows is sorted by the integer row · ``num_items`` + item in the high half, with the bits of the label in the low
    half. The result is None on a GPU, if a pair is repeated, if a label is not positive, or if a row does not fit.

    >>> sorted_rows(CSR.from_lengths([2, 1], item=[4, 1, 4], label=[1.0, 2.0, 3.0]), 9)["item"].tolist()
    [1, 4, 4]
    """
    item, label = pairs["item"], pairs["label"]
    if item.device.type != "cpu" or label.dtype != torch.float32 or not 0 < num_items < 1 << 31:
        return None
    offsets, rows = pairs.offsets.numpy(), min(_BLOCK_ROWS, ((1 << 31) - 1) // num_items)
    items, labels = item.numpy(), label.numpy()
    found, sorted_labels = np.empty(items.shape, np.int32), np.empty(items.shape, np.float32)
    first = 0
    while first < offsets.shape[0] - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_PAIRS, side="right")) - 1
        last = max(first + 1, min(last, first + rows))
        here = slice(int(offsets[first]), int(offsets[last]))
        base = np.repeat(np.arange(last - first) * num_items, np.diff(offsets[first : last + 1]))
        if items[here].size and not (labels[here] > 0).all():
            return None
        key = base + items[here]
        key <<= 32
        key |= labels[here].view(np.int32)
        key.sort()
        sorted_labels[here] = (key & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
        key >>= 32
        if (key[1:] == key[:-1]).any():
            return None
        found[here] = key - base
        first = last
    if found.size and not 0 <= int(items.min()) <= int(items.max()) < num_items:
        fail("item", "out of range", f"numbers from 0 to {num_items - 1}")
    return CSR(pairs.offsets, {"item": torch.from_numpy(found), "label": torch.from_numpy(sorted_labels)})


def latest_pairs(pairs: CSR, num_items: int) -> tuple[Tensor, Tensor]:
    """The distinct sorted keys and their labels; the last duplicate wins."""
    table = sorted_rows(pairs, num_items)
    if table is not None:
        return pack(table.row_of_entries(), table["item"], num_items), table["label"]
    return latest_pairs_by_key(pairs, num_items)


def latest_pairs_by_key(pairs: CSR, num_items: int) -> tuple[Tensor, Tensor]:
    """:func:`latest_pairs` of any table, on any device."""
    key, order = table_keys(pairs, num_items).sort(stable=True)
    last = last_of_equal(key)
    return key[last], pairs["label"][order[last]]


def merge(few: Tensor, many: Tensor) -> Tensor:
    """Merge two sorted tensors by binary search of the ``few``."""
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
