"""Quantiles of features in training rows: a scale that outliers do not change, and a place among all documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError

MAX_ROWS = 1 << 14  # training rows that are measured, evenly spaced
_KNOTS = 64  # per feature
_LOWEST = 1e-3  # level; normal scores are within ±3.09


@dataclass(frozen=True, eq=False)
class Quantiles:
    """The distribution function of each feature in training, piecewise linear between at most 66 knots.

    The level of a value is the fraction of training rows with a smaller value, plus half of those with an equal one.
    Levels are from 0.001 to 0.999, so that an outlier is at most 3.1 standard deviations away.

    >>> quantiles = Quantiles.fit(np.array([[0.0], [0.0], [1.0], [1e30]]))
    >>> quantiles.levels(np.array([[0.0], [0.5], [1.0], [9e30], [np.nan]])).ravel().tolist()
    [0.25, 0.4375, 0.625, 0.875, nan]
    """

    knots: tuple[Array, ...]  # ascending values of each feature; none if all values are missing
    at: tuple[Array, ...]  # their levels

    @classmethod
    def fit(cls, rows: Array) -> Self:
        """Fit to training rows [rows, features], NaN for missing values."""
        found = [_knots(column[~np.isnan(column)]) for column in np.asarray(rows, np.float64).T]
        return cls(tuple(knots for knots, _ in found), tuple(at for _, at in found))

    @property
    def num_features(self) -> int:
        """Number of features."""
        return len(self.knots)

    def levels(self, rows: Array) -> Array:
        """The level of each value, float64 [rows, features]; NaN stays NaN."""
        return self._mapped(rows, self.at, 0.5)

    def normal_scores(self, rows: Array) -> Array:
        """The standard normal quantile of each level: the z-score that the value has in a normal distribution."""
        inverse = NormalDist().inv_cdf
        scores = [np.array([inverse(level) for level in at.tolist()]) for at in self.at]
        return self._mapped(rows, scores, 0.0)

    def _mapped(self, rows: Array, targets: Sequence[Array], unknown: float) -> Array:
        found = np.empty(rows.shape, np.float64)
        for feature, (knots, target) in enumerate(zip(self.knots, targets, strict=True)):
            column = rows[:, feature].astype(np.float64)
            found[:, feature] = np.interp(column, knots, target) if knots.size else unknown
            found[np.isnan(column), feature] = np.nan
        return found

    def to_json(self) -> dict[str, list[list[float]]]:
        """Plain lists, which give the same levels to the bit."""
        return {"knots": [knots.tolist() for knots in self.knots], "levels": [at.tolist() for at in self.at]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_json`."""
        try:
            knots, at = (tuple(np.asarray(part, np.float64) for part in content[key]) for key in ("knots", "levels"))
            sound = len(knots) == len(at) and all(map(_sound, knots, at))
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise DataError("quantiles are not valid", "prepare the data set again")
        return cls(knots, at)


def _knots(column: Array) -> tuple[Array, Array]:
    """Distinct values of a column and their levels, thinned to knots at about equal distances of levels."""
    values, counts = np.unique(column, return_counts=True)
    if not values.size:
        return values, values
    level = np.clip((np.cumsum(counts) - counts / 2) / column.shape[0], _LOWEST, 1 - _LOWEST)
    if values.shape[0] > _KNOTS:
        last = values.shape[0] - 1
        evenly = np.searchsorted(level, np.linspace(level[0], level[-1], _KNOTS)).clip(max=last)
        chosen = np.unique(
            np.concatenate([evenly, [1, last - 1]])
        )  # so that one outlier does not stretch its neighbours
        values, level = values[chosen], level[chosen]
    return values, level


def _sound(knots: Array, at: Array) -> bool:
    ascending = bool((np.diff(knots) > 0).all()) and bool((np.diff(at) >= 0).all())
    inside = bool(np.isfinite(knots).all()) and bool(((at > 0) & (at < 1)).all())
    return knots.ndim == 1 and knots.shape == at.shape and ascending and inside
