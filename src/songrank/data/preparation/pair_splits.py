"""Which pairs are for training, which for validation, which for test."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.core.hashing import derive_key, random_bits
from songrank.io.source import Job

if TYPE_CHECKING:
    from songrank.data.preparation.interaction_options import RatingOptions

_PURPOSE = 0x53504C49


def split_codes(counts: Array, time: Array | None, options: "RatingOptions", job: Job) -> Array | None:
    """0, 1 or 2 for each pair: train, validation, test; None if all are for training.

    Pairs are in order of query, then time; ``counts`` are those of each query.
    """
    if options.split == "none":
        return None
    if options.split == "leave-last-out":
        codes, short = leave_last_out(counts, options.holdout)
        job.count("queries too short to hold out pairs (all for training)", short)
        if short == counts.shape[0]:
            least = 2 * options.holdout + 1
            raise DataError(
                f"no query has {least} interactions{' left' if options.drop_last else ''}, which leave-last-out with "
                f"holdout {options.holdout} needs",
                "choose another split: random, time or none" + (", or drop less" if options.drop_last else ""),
            )
        return codes
    if options.split == "random":
        return random_codes(int(counts.sum()), options.validation, options.test, options.seed)
    if time is None:
        raise DataError("a split by time needs times", "name the time column, or choose another split")
    return time_codes(time, options.validation, options.test)


def leave_last_out(counts: Array, holdout: int) -> tuple[Array, int]:
    """The last ``holdout`` pairs of each query for test, as many before them for validation.

    Queries with fewer than 2·holdout + 1 pairs are left whole for training; how many there are is returned too.

    >>> leave_last_out(np.array([4, 2]), 1)
    (array([0, 0, 1, 2, 0, 0], dtype=uint8), 1)
    """
    ends = numpy_offsets(counts)[1:]
    codes = np.zeros(int(counts.sum()), np.uint8)
    long = ends[counts > 2 * holdout]
    for back in range(1, 2 * holdout + 1) if long.shape[0] else ():
        codes[long - back] = 2 if back <= holdout else 1
    return codes, int(counts.shape[0] - long.shape[0])


def random_codes(rows: int, validation: float, test: float, seed: int) -> Array:
    """Random rows for validation and test, as many as the fractions say.

    >>> np.bincount(random_codes(10, 0.1, 0.2, seed=0)).tolist()
    [7, 1, 2]
    """
    bits = random_bits(derive_key(seed, _PURPOSE), torch.arange(rows))  # numpy may change what its seeds mean
    order = bits.sort(stable=True).indices.numpy()
    codes = np.zeros(rows, np.uint8)
    last = round(rows * test)
    codes[order[:last]] = 2
    codes[order[last : last + round(rows * validation)]] = 1
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
        raise DataError(
            f"{count:,} {one if count == 1 else many} cannot be divided into validation {validation:g}, "
            f"test {test:g} and a rest for training",
            f"choose smaller parts, 0 for none, or bring more {many}",
        )
    return codes


def time_codes(time: Array, validation: float, test: float) -> Array:
    """The latest pairs for test, those before for validation; pairs of one moment stay together, in the later split.

    >>> time_codes(np.array([1, 2, 3, 4, 4]), validation=0.2, test=0.2).tolist()
    [0, 0, 1, 2, 2]
    """
    ordered, rows = np.sort(time), time.shape[0]
    codes = np.zeros(rows, np.uint8)
    test_rows = round(rows * test)
    if test_rows:
        codes[time >= ordered[rows - test_rows]] = 2
    left = ordered[ordered < ordered[rows - test_rows]] if test_rows else ordered
    validation_rows = min(round(rows * validation), left.shape[0])
    if validation_rows:
        codes[(codes == 0) & (time >= left[left.shape[0] - validation_rows])] = 1
    return codes
