"""Which queries of a list task are for training, which for validation, which for test: always a query as a whole."""

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.dataset import SPLITS
from songrank.data.preparation.pair_splits import divide
from songrank.data.preparation_options import RANDOM_VALIDATION, QuerySplitOptions

TRAIN, VALIDATION, TEST = range(len(SPLITS))
UNNAMED = 255  # the split of a row about which the source says nothing


def split_queries(query: Array, split: Array, ids: Ids, options: QuerySplitOptions) -> Array:
    """0, 1 or 2 for each query: train, validation, test.

    What is divided at random is divided in the order in which queries appear: their numbers follow their ids, and how
    these are sorted, as numbers or as texts, may depend on the ids of another split.

    Args:
        query: number of each row's query, all of which have rows.
        split: of each row, as the source says: 0, 1, 2 or ``UNNAMED``.
        ids: of the queries, for messages.
        options: how to divide.

    >>> query, split = np.array([0, 0, 1]), np.array([0, 0, 2], np.uint8)
    >>> split_queries(query, split, Ids.of(["a", "b"]), QuerySplitOptions()).tolist()
    [0, 2]

    """
    named = np.unique(split).tolist()
    # In order of their texts, whatever type they are read as, so that how other ids are written moves no query.
    order = np.array(sorted(range(len(ids)), key=[str(known).encode() for known in ids].__getitem__), np.int64)
    if options.split == "random" or (options.split is None and named in ([TRAIN], [UNNAMED])):
        codes = np.empty(len(ids), np.uint8)
        validation = RANDOM_VALIDATION if options.validation is None else options.validation
        codes[order] = divide(len(ids), "query", "queries", validation, options.test, options.seed)
        return codes
    _check_named(named, options)
    codes = _given(query, split, ids)
    if options.validation:
        train = order[codes[order] == TRAIN]
        codes[train] = divide(train.shape[0], "query", "queries", options.validation, 0.0, options.seed)
    return codes


def _check_named(named: list[int], options: QuerySplitOptions) -> None:
    """What the source says about splits must do for what is asked of it."""
    found = " and ".join(SPLITS[code] for code in named if code != UNNAMED)
    if UNNAMED in named:
        fix = "name files train, validation, test, or split at random"
        raise DataError("not all rows belong to a named split", fix)
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
        raise DataError(
            f"query {shown(ids[at])} has rows in {SPLITS[low[at]]} and in {SPLITS[high[at]]}{more}",
            "a query belongs to one split: move its rows, or give different queries different ids",
        )
    return low
