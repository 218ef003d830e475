"""Logarithm, imputation, flags of missing values and standardisation of features, fitted to training rows only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError

LogFeatures = Literal["none", "auto", "all"]
Missing = Literal["zero", "mean", "min"]

HEAVY_TAIL = 10.0  # ratio of maximum and mean above which a feature is heavy-tailed


class Moments:
    """Count, mean, sum of squared deviations, minimum and maximum of each feature, without missing values.

    Blocks are merged with the update of `Chan, Golub and LeVeque (1983)
    <https://doi.org/10.1080/00031305.1983.10483115>`_, which is accurate if the mean is large beside the deviation.
    Sums run along contiguous columns, so that results of a feature do not depend on the number of features.
    """

    def __init__(self, num_features: int) -> None:
        self.count, self.mean, self.squares = np.zeros((3, num_features))
        self.low, self.high = np.full(num_features, np.inf), np.full(num_features, -np.inf)

    def add(self, rows: Array) -> None:
        """Add a block of rows, float64 [rows, features], NaN for missing values."""
        columns = np.ascontiguousarray(rows.T)
        missing = np.isnan(columns)
        any_missing = bool(missing.any())
        count = (rows.shape[0] - missing.sum(1)).astype(np.float64)
        mean = (np.where(missing, 0.0, columns) if any_missing else columns).sum(1) / np.maximum(count, 1)
        deviation = columns - mean[:, None]
        if any_missing:
            deviation[missing] = 0.0
        step, both = mean - self.mean, np.maximum(self.count + count, 1)
        self.mean += step * count / both
        squares = np.square(deviation, out=deviation).sum(1)
        self.squares += squares + np.square(step) * self.count * count / both
        self.count += count
        self.low = np.fmin(self.low, np.fmin.reduce(columns, axis=1, initial=np.inf))
        self.high = np.fmax(self.high, np.fmax.reduce(columns, axis=1, initial=-np.inf))

    @property
    def deviation(self) -> Array:
        """Standard deviation of each feature."""
        return np.sqrt(np.maximum(self.squares, 0) / np.maximum(self.count, 1))


@dataclass(frozen=True, eq=False)
class FeatureTransform:
    """([fill(log(x)), flags(x)] − mean) / scale, column by column.

    A flag is 1 if a feature is missing, else 0. Flags are separate columns after the features.
    """

    log: Array  # whether a feature is replaced by log(1 + x), or −log(1 − x) for negative values
    missing: Array  # replacement of missing values, after the logarithm
    flags: Array  # indices of features with a flag
    mean: Array  # 0 without standardisation
    scale: Array  # 1 without standardisation, and for features that are constant in training

    @classmethod
    def fit(
        cls,
        blocks: Iterable[Array],
        num_features: int,
        *,
        standardise: bool = False,
        log_features: LogFeatures = "none",
        missing: Missing = "zero",
        flags: int = 0,
    ) -> Self:
        """Fit to blocks of training rows [rows, num_features] with NaN for missing values, in one pass.

        ``log_features`` "auto" selects non-negative features with a maximum above ten means. Missing values become 0,
        the mean or the minimum. Of the first ``flags`` features, those that are missing in some but not all rows have a
        flag.
        """
        plain, logged, count = Moments(num_features), Moments(num_features), 0
        nothing_to_learn = not standardise and log_features == "none" and missing == "zero" and not flags
        for block in () if nothing_to_learn else blocks:
            rows = np.asarray(block, np.float64)
            count += rows.shape[0]
            plain.add(rows)
            if log_features != "none":
                logged.add(_signed_log(rows))
        heavy = (plain.low >= 0) & (plain.high > HEAVY_TAIL * plain.mean)
        log = {"none": np.zeros_like(heavy), "auto": heavy, "all": np.ones_like(heavy)}[log_features]

        low, high, mean, deviation = (
            np.where(log, getattr(logged, name), getattr(plain, name)) for name in ("low", "high", "mean", "deviation")
        )
        known, constant = plain.count > 0, low == high
        mean = np.where(constant, low, mean)  # avoids rounding: constant features become exactly 0
        fill = np.where(known, {"zero": np.zeros(num_features), "mean": mean, "min": low}[missing], 0.0)
        flagged = np.flatnonzero(known & (plain.count < count) & (np.arange(num_features) < flags))
        if not standardise:
            columns = num_features + flagged.shape[0]
            return cls(log, fill, flagged, np.zeros(columns), np.ones(columns))
        scale = np.where(constant | (deviation == 0), 1.0, deviation)
        share = 1 - plain.count[flagged] / max(count, 1)
        scales = np.concatenate([scale, np.sqrt(share * (1 - share))])
        return cls(log, fill, flagged, np.concatenate([np.where(known, mean, 0.0), share]), scales)

    @property
    def num_features(self) -> int:
        """Number of columns of a transformed row, including flags."""
        return int(self.mean.shape[0])

    @property
    def num_given(self) -> int:
        """Number of features of an input row."""
        return int(self.missing.shape[0])

    def apply(self, rows: Array, dtype: Any = np.float32) -> Array:
        """Transform rows [rows, features] with NaN for missing values; raises if a result overflows ``dtype``."""
        if rows.ndim != 2 or rows.shape[1] != self.num_given:
            found = f"features of shape {list(rows.shape)}"
            raise DataError(found, f"expected [documents, {self.num_given}], as in training")
        values = np.array(rows, np.float64)
        if self.log.any():
            np.copyto(values, _signed_log(values), where=self.log)
        unknown = np.isnan(values)
        np.copyto(values, self.missing, where=unknown)
        if self.flags.size:
            values = np.concatenate([values, unknown[:, self.flags]], axis=1)
        if self.mean.any():
            values -= self.mean
        if (self.scale != 1).any():
            values /= self.scale
        with np.errstate(over="ignore"):
            cast = values.astype(dtype)
        if not np.isfinite(cast).all():
            row, feature = np.argwhere(~np.isfinite(cast))[0]
            what = f"feature {feature} (from 0) becomes {values[row, feature]:g}, which overflows {cast.dtype.name}"
            raise DataError(what, "use dtype float32 or log_features, or correct the value")
        return cast

    def scaled(self, factors: Array) -> Self:
        """The transformation whose columns are multiplied by these factors, above 0."""
        return replace(self, scale=self.scale / factors)

    def to_json(self) -> dict[str, list[float]]:
        """The entry ``transform`` of ``dataset.json``; features are numbered from 0."""
        stored = {"log": np.flatnonzero(self.log), "mean": self.mean, "scale": self.scale, "missing": self.missing}
        stored |= {"flags": self.flags} if self.flags.size else {}
        return {name: column.tolist() for name, column in stored.items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_json`."""
        try:
            mean, scale, missing = (np.asarray(content[key], np.float64) for key in ("mean", "scale", "missing"))
            log, flagged = (np.isin(np.arange(missing.shape[0]), content.get(key, [])) for key in ("log", "flags"))
            flags = np.flatnonzero(flagged)
            sound = log.sum() == len(content["log"]) and flags.tolist() == list(content.get("flags", []))
            sound = sound and missing.ndim == 1 and mean.shape == scale.shape == (missing.shape[0] + flags.shape[0],)
            sound = sound and bool(np.isfinite(np.concatenate([mean, scale, missing])).all() and (scale > 0).all())
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            sound = False
        if not sound:
            raise DataError("transform is not a valid feature transformation", "prepare the data set again")
        return cls(log, missing, flags, mean, scale)


def _signed_log(rows: Array) -> Array:
    logged: Array = np.copysign(np.log1p(np.abs(rows)), rows)
    return logged
