"""Splits of pairs, queries or rows into training, validation and test."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError, shown
from songrank.core.hashing import derive_key, random_bits
from songrank.core.ids import Ids
from songrank.data.dataset import SPLITS
from songrank.io.source import Job

if TYPE_CHECKING:
    from songrank.data.preparation_options import QuerySplitOptions, RatingOptions

TRAIN, VALIDATION, TEST = range(len(SPLITS))
UNNAMED = 255  # split of rows for which the source gives none
_PURPOSE = 0x53504C49


def split_pairs(counts: Array, time: Array | None, options: "RatingOptions", job: Job) -> Array | None:
    """The split of each pair, ordered by query, then time, as 0, 1 or 2; None if all are for training."""
    if options.split == "none":
        return None
    if options.split == "leave-last-out":
        codes, short = leave_last_out(counts, options.holdout)
        job.count("queries too short to hold out pairs (all for training)", short)
        if short == counts.shape[0]:
            left, fix = (" left", ", or lower drop_last") if options.drop_last else ("", "")
            what = f"no user has {2 * options.holdout + 1} interactions{left}, required by leave-last-out with holdout "
            raise DataError(f"{what}{options.holdout}", f"use split random, time or none{fix}")
        return codes
    if options.split == "random":
        return random_codes(int(counts.sum()), options.validation, options.test, options.seed)
    if time is None:
        raise DataError("split time needs times", "set time_column, or choose another split")
    return time_codes(time, options.validation, options.test)


def leave_last_out(counts: Array, holdout: int) -> tuple[Array, int]:
    """The last ``holdout`` pairs of each query for test, the same number before them for validation.

    Queries with fewer than 2·holdout + 1 pairs are used for training only; their number is returned, too.
    """
    ends = numpy_offsets(counts)[1:]
    codes = np.zeros(int(counts.sum()), np.uint8)
    long = ends[counts > 2 * holdout]
    for back in range(1, 2 * holdout + 1) if long.shape[0] else ():
        codes[long - back] = TEST if back <= holdout else VALIDATION
    return codes, int(counts.shape[0] - long.shape[0])


def random_codes(rows: int, validation: float, test: float, seed: int) -> Array:
    """Random rows for validation and test, by these fractions."""
    bits = random_bits(derive_key(seed, _PURPOSE), torch.arange(rows))  # numpy generators may change between versions
    order = bits.sort(stable=True).indices.numpy()
    codes = np.zeros(rows, np.uint8)
    last = round(rows * test)
    codes[order[:last]] = TEST
    codes[order[last : last + round(rows * validation)]] = VALIDATION
    return codes


def divide(count: int, one: str, many: str, validation: float, test: float, seed: int) -> Array:
    """Random split codes of rows or queries; each requested part gets at least one.

    >>> np.bincount(divide(5, "row", "rows", validation=0.01, test=0.01, seed=0)).tolist()
    [3, 1, 1]
    """
    least = 1 / max(1, count)
    codes = random_codes(count, max(validation, least) if validation else 0, max(test, least) if test else 0, seed)
    train, validated, tested = np.bincount(codes, minlength=3)
    if not train or (validation and not validated) or (test and not tested):
        parts = f"validation {validation:g}, test {test:g} and training"
        what = f"{count:,} {one if count == 1 else many} cannot be split into {parts}"
        raise DataError(what, f"use smaller fractions, 0 for none, or add {many}")
    return codes


def time_codes(time: Array, validation: float, test: float) -> Array:
    """The latest pairs for test, those before for validation; pairs with equal times are in the same, later split."""
    left, codes = np.sort(time), np.zeros(time.shape[0], np.uint8)
    for code, part in ((TEST, test), (VALIDATION, validation)):
        if rows := min(round(time.shape[0] * part), left.shape[0]):
            first = left[left.shape[0] - rows]
            codes[(codes == TRAIN) & (time >= first)] = code
            left = left[left < first]
    return codes


def split_queries(query: Array, split: Array, ids: Ids, options: "QuerySplitOptions") -> Array:
    """The split of each query as 0, 1 or 2.

    ``query`` is the query number of each row, ``split`` its split in the source: 0, 1, 2 or ``UNNAMED``. Random splits
    use the string order of ids, so that they do not depend on the type of other ids.
    """
    named = np.unique(split).tolist()
    order = np.array(sorted(range(len(ids)), key=[str(known).encode() for known in ids].__getitem__), np.int64)
    if options.split == "random" or (options.split is None and named in ([TRAIN], [UNNAMED])):
        codes = np.empty(len(ids), np.uint8)
        codes[order] = divide(len(ids), "query", "queries", options.random_validation, options.test, options.seed)
        return codes
    _check_named(named, options)
    codes = _given(query, split, ids)
    if options.validation:
        train = order[codes[order] == TRAIN]
        codes[train] = divide(train.shape[0], "query", "queries", options.validation, 0.0, options.seed)
    return codes


def _check_named(named: list[int], options: "QuerySplitOptions") -> None:
    """Raise unless the splits of the source match the options."""
    found = " and ".join(SPLITS[code] for code in named if code != UNNAMED)
    if UNNAMED in named:
        raise DataError("not all rows have a split", "name files train, validation, test, or set split=random")
    if TRAIN not in named:
        raise DataError(f"the source has rows for {found}, but none for training", "add them, or set split=random")
    if options.split is None and TEST not in named:
        fix = "add them, or set split=given for no test split, or split=random"
        raise DataError(f"the source has rows for {found}, but none for test", fix)
    if options.validation and VALIDATION in named:
        what = f"validation is {options.validation:g}, but the source has rows for validation"
        raise DataError(what, "omit the option")
    if "test" in options.model_fields_set:
        what = f"test is {options.test:g}, but the source has a test split"
        raise DataError(what, "omit the option, or set split=random")


def _given(query: Array, split: Array, ids: Ids) -> Array:
    """The split of each query, which must be the same for all its rows."""
    low, high = np.full(len(ids), UNNAMED, np.uint8), np.zeros(len(ids), np.uint8)
    np.minimum.at(low, query, split)
    np.maximum.at(high, query, split)
    leaks = np.flatnonzero(low != high)
    if leaks.shape[0]:
        at = int(leaks[0])
        more = f" ({leaks.shape[0] - 1:,} more queries)" if leaks.shape[0] > 1 else ""
        what = f"query {shown(ids[at])} has rows in {SPLITS[low[at]]} and in {SPLITS[high[at]]}{more}"
        fix = "move all rows of a query to one split, or give different queries different ids"
        raise DataError(what, fix)
    return low
