"""Which pairs, queries or rows are for training, which for validation, which for test."""

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
UNNAMED = 255  # the split of a row about which the source says nothing
_PURPOSE = 0x53504C49


def split_pairs(counts: Array, time: Array | None, options: "RatingOptions", job: Job) -> Array | None:
    """The split of each pair as 0, 1 or 2; None if all are for training.

    Pairs are in order of query, then time; ``counts`` are those of each query.
    """
    if options.split == "none":
        return None
    if options.split == "leave-last-out":
        codes, short = leave_last_out(counts, options.holdout)
        job.count("queries too short to hold out pairs (all for training)", short)
        if short == counts.shape[0]:
            left, fix = (" left", ", or drop less") if options.drop_last else ("", "")
            what = f"no query has {2 * options.holdout + 1} interactions{left}, which leave-last-out with holdout "
            raise DataError(f"{what}{options.holdout} needs", f"choose another split: random, time or none{fix}")
        return codes
    if options.split == "random":
        return random_codes(int(counts.sum()), options.validation, options.test, options.seed)
    if time is None:
        raise DataError("a split by time needs times", "name the time column, or choose another split")
    return time_codes(time, options.validation, options.test)


def leave_last_out(counts: Array, holdout: int) -> tuple[Array, int]:
    """The last ``holdout`` pairs of each query for test, as many before them for validation.

    Queries with fewer than 2·holdout + 1 pairs are left whole for training; their number is returned too.
    """
    ends = numpy_offsets(counts)[1:]
    codes = np.zeros(int(counts.sum()), np.uint8)
    long = ends[counts > 2 * holdout]
    for back in range(1, 2 * holdout + 1) if long.shape[0] else ():
        codes[long - back] = TEST if back <= holdout else VALIDATION
    return codes, int(counts.shape[0] - long.shape[0])


def random_codes(rows: int, validation: float, test: float, seed: int) -> Array:
    """Random rows for validation and test, as many as the fractions say."""
    bits = random_bits(derive_key(seed, _PURPOSE), torch.arange(rows))  # numpy may change what its seeds mean
    order = bits.sort(stable=True).indices.numpy()
    codes = np.zeros(rows, np.uint8)
    last = round(rows * test)
    codes[order[:last]] = TEST
    codes[order[last : last + round(rows * validation)]] = VALIDATION
    return codes


def divide(count: int, one: str, many: str, validation: float, test: float, seed: int) -> Array:
    """Random codes for what is divided as a whole, rows or queries; each part that is asked for gets at least one.

    >>> np.bincount(divide(5, "row", "rows", validation=0.01, test=0.01, seed=0)).tolist()
    [3, 1, 1]
    """
    least = 1 / max(1, count)
    codes = random_codes(count, max(validation, least) if validation else 0, max(test, least) if test else 0, seed)
    train, validated, tested = np.bincount(codes, minlength=3)
    if not train or (validation and not validated) or (test and not tested):
        parts = f"validation {validation:g}, test {test:g} and a rest for training"
        what = f"{count:,} {one if count == 1 else many} cannot be divided into {parts}"
        raise DataError(what, f"choose smaller parts, 0 for none, or bring more {many}")
    return codes


def time_codes(time: Array, validation: float, test: float) -> Array:
    """The latest pairs for test, those before for validation; pairs of one moment stay together, in the later split."""
    left, codes = np.sort(time), np.zeros(time.shape[0], np.uint8)
    for code, part in ((TEST, test), (VALIDATION, validation)):
        if rows := min(round(time.shape[0] * part), left.shape[0]):
            first = left[left.shape[0] - rows]
            codes[(codes == TRAIN) & (time >= first)] = code
            left = left[left < first]
    return codes


def split_queries(query: Array, split: Array, ids: Ids, options: "QuerySplitOptions") -> Array:
    """The split of each query as 0, 1 or 2.

    ``query`` is the number of each row's query, ``split`` what the source says of the row: 0, 1, 2 or ``UNNAMED``.
    Random splits go by the order of the ids' texts, so that how other ids are written moves no query.
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
    """What the source says about splits must do for what is asked of it."""
    found = " and ".join(SPLITS[code] for code in named if code != UNNAMED)
    if UNNAMED in named:
        raise DataError(
            "not all rows belong to a named split", "name files train, validation, test, or split at random"
        )
    if TRAIN not in named:
        raise DataError(f"there are rows for {found} and none for training", "add them, or choose split random")
    if options.split is None and TEST not in named:
        fix = "add them, or choose split given to do without, or random"
        raise DataError(f"there are rows for {found} and none for test", fix)
    if options.validation and VALIDATION in named:
        what = f"validation is {options.validation:g}, and the source has rows for validation"
        raise DataError(what, "leave the option out")
    if "test" in options.model_fields_set:
        what = f"test is {options.test:g}, and the source says which queries are for test"
        raise DataError(what, "leave the option out, or choose split random")


def _given(query: Array, split: Array, ids: Ids) -> Array:
    """The split of each query, in which all its rows must be."""
    low, high = np.full(len(ids), UNNAMED, np.uint8), np.zeros(len(ids), np.uint8)
    np.minimum.at(low, query, split)
    np.maximum.at(high, query, split)
    leaks = np.flatnonzero(low != high)
    if leaks.shape[0]:
        at = int(leaks[0])
        more = f", and so have {leaks.shape[0] - 1:,} more" if leaks.shape[0] > 1 else ""
        what = f"query {shown(ids[at])} has rows in {SPLITS[low[at]]} and in {SPLITS[high[at]]}{more}"
        fix = "a query belongs to one split: move its rows, or give different queries different ids"
        raise DataError(what, fix)
    return low
