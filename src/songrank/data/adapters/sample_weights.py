"""Weights of documents, as labels that carry them: what corrects for the position at which a document was shown.

With w = 1 / propensity, labels whose gain is w times as large (``functional.gains.weighted_labels``) are inverse
propensity weighting of DCG (Agarwal et al., *A General Framework for Counterfactual Learning-to-Rank*, SIGIR 2019).
"""

from typing import Any

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.data.adapters.feature_matrix import unmasked


def read_weights(name: str, weight: Any, count: int, each: str) -> Array:
    """Weights as float64 [count], each finite and at least 0, one of them above it.

    >>> read_weights("group_weight", [1, -2], 2, "list")
    Traceback (most recent call last):
    songrank.core.errors.DataError: group_weight is -2.0 in place 1 (from 0); expected a finite number of at least 0
    """
    try:
        found: Array = np.asarray(unmasked(weight), np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} is a {type(weight).__name__}", "expected numbers") from None
    if found.shape != (count,):
        raise DataError(f"{name} has shape {list(found.shape)}", f"expected one weight a {each}, [{count}]")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if wrong.shape[0]:
        at = int(wrong[0])
        raise DataError(f"{name} is {found[at]} in place {at} (from 0)", "expected a finite number of at least 0")
    if not found.any():
        raise DataError(f"{name} is zero everywhere", "expected a weight above 0")
    return found
