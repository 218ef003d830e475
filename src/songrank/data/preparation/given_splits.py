"""Splits that the source gives: held-out pairs that training does not know, and a validation part of training."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.core.hashing import derive_key, random_bits
from songrank.core.pairs import pack
from songrank.core.text import counted
from songrank.data.dataset import SPLITS
from songrank.data.preparation.splits import TEST, TRAIN, VALIDATION

if TYPE_CHECKING:
    from songrank.data.preparation.interaction_log import Interactions

_PURPOSE = 0x43555456


def check_given(split: Array, fraction: float) -> None:
    """Raise unless there are rows for training, and validation is either given or a fraction of training."""
    found = [name for code, name in enumerate(SPLITS) if (split == code).any()]
    if "train" not in found:
        raise DataError(f"the source has rows for {' and '.join(found)}, but none for training", "add them")
    if fraction and "validation" in found:
        what = f"validation is {fraction:g}, but the source has rows for validation"
        raise DataError(what, "omit the option, or the rows")


def drop_unknown(log: "Interactions") -> dict[str, dict[str, int]]:
    """Drop held-out rows that cannot be ranked or are known already; return their counts by split.

    Dropped are rows of users or items without a training row, for which no parameters are learned, and rows of a pair
    of an earlier split, whose items are excluded from the user's list. Training rows do not change.
    """
    assert log.split is not None
    figures: dict[str, dict[str, int]] = {}
    kept = log.split == TRAIN
    if not kept.any():
        raise DataError("no pair is left for training", "check the training rows, or lower the minimum counts")
    users = np.bincount(log.query[kept], minlength=len(log.query_ids)) > 0
    items = np.bincount(log.item[kept], minlength=len(log.item_ids)) > 0
    known = users[log.query] & items[log.item]
    key = pack(log.query.astype(np.int64), log.item, len(log.item_ids))
    for code in (VALIDATION, TEST):
        given = log.split == code
        if not given.any():
            continue
        left, found = given & known, {"pairs": int(np.count_nonzero(given))}
        found["unknown_users"] = int(np.unique(log.query[given & ~users[log.query]]).shape[0])
        found["unknown_items"] = int(np.unique(log.item[given & ~items[log.item]]).shape[0])
        found["pairs_of_unknown"] = int(np.count_nonzero(given & ~known))
        for earlier in range(code):
            again = left & np.isin(key, key[kept & (log.split == earlier)])
            found[f"pairs_in_{SPLITS[earlier]}"] = int(np.count_nonzero(again))
            left &= ~again
        figures[SPLITS[code]] = found
        if not left.any():
            what = f"no {SPLITS[code]} pair is left, of {found['pairs']:,}: {_dropped(found)}"
            raise DataError(what, "expected pairs of training users and items that are not in an earlier split")
        kept |= left
    log.take(kept)
    return figures


def cut_validation(log: "Interactions", fraction: float, seed: int) -> Array:
    """The split of each row, with round(fraction · n) of each user's n training pairs for validation, at random.

    Half a pair is rounded up. Every user keeps a training pair, and pairs of items that would have none are not cut.
    All rows of a repeated pair have the same split. The choice depends on ids and seed only, not on the order of rows.
    """
    assert log.split is not None
    if not fraction:
        return log.split
    train = log.split == TRAIN
    rows = pack(log.query.astype(np.int64), log.item, len(log.item_ids))
    pairs = np.unique(rows[train])
    query, item = pairs // len(log.item_ids), pairs % len(log.item_ids)
    counts = np.bincount(query, minlength=len(log.query_ids))
    wanted = np.minimum(np.floor(counts * fraction + 0.5).astype(np.int64), np.maximum(counts - 1, 0))
    bits = random_bits(derive_key(seed, _PURPOSE), torch.from_numpy(pairs)).numpy()
    order = np.lexsort((bits, query))
    cut = np.zeros(pairs.shape[0], bool)
    cut[order] = np.arange(pairs.shape[0]) - numpy_offsets(counts)[query] < wanted[query]  # order keeps the queries
    cut &= (np.bincount(item[~cut], minlength=len(log.item_ids)) > 0)[item]
    if not cut.any():
        what = f"no user has enough training pairs to hold out {fraction:g} of them for validation"
        raise DataError(what, "use a larger fraction, or 0 for no validation split")
    codes = log.split.copy()
    codes[train & np.isin(rows, pairs[cut])] = VALIDATION
    return codes


def held_out_notes(info: Mapping[str, Any]) -> list[str]:
    """One line for each split from which pairs were dropped; ``info`` is the content of ``dataset.json``.

    >>> counts = {"pairs": 9, "unknown_users": 1, "unknown_items": 0, "pairs_of_unknown": 2, "pairs_in_train": 1}
    >>> held_out_notes({"held_out": {"test": counts}})
    ['test: dropped 3 of 9 pairs: 2 of users or items unknown in training (1 user, 0 items), 1 also in training']
    """
    return [
        f"{split}: dropped {dropped:,} of {counted(found['pairs'], 'pairs')}: {_dropped(found)}"
        for split, found in info.get("held_out", {}).items()
        if (dropped := sum(count for name, count in found.items() if name.startswith("pairs_")))
    ]


def _dropped(found: Mapping[str, int]) -> str:
    """The dropped pairs by reason."""
    parts = []
    if found["pairs_of_unknown"]:
        who = f"{counted(found['unknown_users'], 'users')}, {counted(found['unknown_items'], 'items')}"
        parts.append(f"{found['pairs_of_unknown']:,} of users or items unknown in training ({who})")
    for split, word in (("train", "training"), ("validation", "validation")):
        if again := found.get(f"pairs_in_{split}"):
            parts.append(f"{again:,} also in {word}")
    return ", ".join(parts)
