"""Splits of pairs, queries or rows into training, validation and test."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
_COLD = 0x434F4C44


def cold_items(number: int, fraction: float, seed: int) -> Array:
    """The split in which each item is cold, TRAIN for most: round(``fraction`` · ``number``) random items, at least 1,
    are cold in test, as many others in validation.

    >>> np.bincount(cold_items(20, 0.1, seed=0)).tolist()
    [16, 2, 2]
    """
    count = max(1, round(fraction * number))
    order = random_bits(derive_key(seed, _COLD), torch.arange(number)).sort().indices.numpy()
    codes = np.zeros(number, np.uint8)
    codes[order[:count]], codes[order[count : 2 * count]] = TEST, VALIDATION
    return codes


def split_pairs(counts: Array, time: Array | None, options: "RatingOptions", job: Job) -> Array | None:
    """The split of each pair, ordered by query, then time, as 0, 1 or 2; None if all are for training."""
    check_pairs(counts, time is not None, options, job)
    if options.split == "none":
        return None
    if options.split == "leave-last-out":
        return leave_last_out(counts, options.holdout)
    if options.split == "random" or time is None:
        return random_codes(int(counts.sum()), options.validation, options.test, options.seed)
    return time_codes(time, options.validation, options.test)


def check_pairs(counts: Array, has_times: bool, options: "RatingOptions", job: Job) -> None:
    """Raise unless pairs, with these counts by query, can be split; count queries that are too short."""
    if options.split == "leave-last-out":
        short = int(np.count_nonzero(counts <= 2 * options.holdout))
        job.count("queries too short to hold out pairs (all for training)", short)
        if short == counts.shape[0]:
            left, fix = (" left", ", or lower drop_last") if options.drop_last else ("", "")
            what = f"no user has {2 * options.holdout + 1} interactions{left}, required by leave-last-out with holdout "
            raise DataError(f"{what}{options.holdout}", f"use split random, time or none{fix}")
    if options.split == "time" and not has_times:
        raise DataError("split time needs times", "set time_column, or choose another split")


def leave_last_out(counts: Array, holdout: int) -> Array:
    """The last ``holdout`` pairs of each query for test, the same number before them for validation.

    Queries with fewer than 2·holdout + 1 pairs are used for training only.
    """
    ends = numpy_offsets(counts)[1:]
    codes = np.zeros(int(counts.sum()), np.uint8)
    long = ends[counts > 2 * holdout]
    for back in range(1, 2 * holdout + 1) if long.shape[0] else ():
        codes[long - back] = TEST if back <= holdout else VALIDATION
    return codes


def random_codes(rows: int, validation: float, test: float, seed: int) -> Array:
    """Random rows for validation and test, by these fractions."""
    order = torch.from_numpy(row_bits(0, rows, seed)).sort(stable=True).indices.numpy()
    codes = np.zeros(rows, np.uint8)
    last, end = random_ends(rows, validation, test)
    codes[order[:last]] = TEST
    codes[order[last:end]] = VALIDATION
    return codes


def row_bits(start: int, stop: int, seed: int) -> Array:
    """Random bits of rows, distinct; numpy generators may change between versions."""
    bits: Array = random_bits(derive_key(seed, _PURPOSE), torch.arange(start, stop)).numpy()
    return bits


def random_ends(rows: int, validation: float, test: float) -> tuple[int, int]:
    """In the order of random bits, where the rows for test end, and those for validation."""
    last = round(rows * test)
    return last, min(rows, last + round(rows * validation))


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
    ordered = np.sort(time)

    def nth(number: int) -> tuple[Any, int]:
        return ordered[number], int(np.searchsorted(ordered, ordered[number]))

    return codes_since(time, time_bounds(time.shape[0], validation, test, nth))


def time_bounds(
    rows: int, validation: float, test: float, nth: Callable[[int], tuple[Any, int]]
) -> list[tuple[int, Any]]:
    """The first time of test and of validation; ``nth``: the time with this number in order, how many are earlier."""
    left, bounds = rows, []
    for code, part in ((TEST, test), (VALIDATION, validation)):
        if held_out := min(round(rows * part), left):
            first, left = nth(left - held_out)
            bounds.append((code, first))
    return bounds


def codes_since(time: Array, bounds: Sequence[tuple[int, Any]]) -> Array:
    """The split of each pair by its time."""
    codes = np.zeros(time.shape[0], np.uint8)
    for code, first in bounds:
        codes[(codes == TRAIN) & (time >= first)] = code
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
