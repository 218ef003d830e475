"""Input of a DocumentRanker: documents, labels and lists, validated, and as a table for preparation."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.core.gains import weighted_labels
from songrank.data.adapters.feature_matrix import Features, check_not_negative, unmasked


@dataclass(frozen=True)
class Lists:
    """List number of each row; lists are numbered by first occurrence."""

    number: Array
    count: int

    @property
    def lengths(self) -> Array:
        """Number of rows per list."""
        return np.bincount(self.number, minlength=self.count)

    @property
    def order(self) -> Array:
        """Rows grouped by list, in input order within a list."""
        return np.argsort(self.number, kind="stable")


@dataclass(frozen=True)
class Documents:
    """Rows of one split, validated."""

    features: Features
    label: Array
    lists: Lists


@dataclass(frozen=True)
class DocumentTable:
    """Documents as a feature table: column names, and weights of the training lists."""

    features: tuple[str, ...]
    weight: Array | None
    ignored: tuple[str, ...] = ()  # columns that are written without values

    def columns(self) -> dict[str, str | None]:
        """Column options of preparation."""
        words = {"query": True, "label": True, "split": True, "weight": self.weight is not None}
        return {f"{word}_column": self._name(word) if known else None for word, known in words.items()}

    def _name(self, word: str) -> str:
        while word in (*self.features, *self.ignored):
            word = f"_{word}"
        return word

    def parts(self, train: Documents, validation: Sequence[Documents]) -> Iterator[pl.DataFrame]:
        """The table, in chunks of rows."""
        before = 0
        for split, documents in (("train", train), *(("validation", documents) for documents in validation)):
            number = documents.lists.number
            weight = np.ones(documents.lists.count) if split != "train" or self.weight is None else self.weight
            for first, last, dense in documents.features.blocks():
                part = pl.from_numpy(dense, schema=list(self.features))
                part = part.with_columns(pl.lit(None).alias(name) for name in self.ignored)
                columns = {"query": number[first:last] + before, "label": documents.label[first:last]}
                if self.weight is not None:
                    columns["weight"] = weight[number[first:last]]
                part = part.with_columns(pl.Series(self._name(word), column) for word, column in columns.items())
                yield part.with_columns(pl.lit(split).alias(self._name("split")))
            before += documents.lists.count


def read_documents(
    features: Features,
    y: Any,
    group: Any,
    qid: Any,
    sample_weight: Any,
    *,
    gain: str,
    prefix: str = "",
    one_list: bool = False,
) -> Documents:
    """Validate labels, lists and weights; ``gain`` is the recipe's, ``prefix`` that of argument names in messages."""
    if group is None and qid is None and not one_list:
        what = f"neither {prefix}group nor {prefix}qid is given"
        raise DataError(what, f"pass the rows per query: {prefix}group=[…]")
    label = _read_labels(y, features.rows)
    lists = read_lists(features.rows, group, qid)
    if sample_weight is not None:
        weight = read_weights(f"{prefix}sample_weight", sample_weight, features.rows, "row")
        label = weighted_labels(torch.from_numpy(label.astype(np.float64)), torch.from_numpy(weight), gain).numpy()
    return Documents(features, label.astype(np.float32), lists)


def _read_labels(y: Any, rows: int) -> Array:
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None", "pass one label per row")
    try:
        given = np.asarray(unmasked(y))
        label: Array = given.astype(np.float64) if given.dtype.kind in "fiubO" else np.zeros(())
    except (TypeError, ValueError):
        label = np.zeros(())
    if label.ndim == 2 and label.shape[1] == 1:
        label = label[:, 0]
    if label.ndim == 0:
        raise DataError(f"y is {shown(y)}", "expected numbers, one per row")
    if label.shape != (rows,):
        raise DataError(f"y has shape {list(label.shape)}, but X has {rows:,} rows", "expected one label per row")
    return check_not_negative("y", label, np.arange(rows))


def read_lists(rows: int, group: Any = None, qid: Any = None) -> Lists:
    """Lists of ``rows`` rows from LightGBM's ``group`` or XGBoost's ``qid``; one list if both are None."""
    if group is not None and qid is not None:
        raise DataError("group and qid are both given", "expected one of them")
    if qid is not None:
        return _from_ids(rows, qid)
    if group is None:
        return Lists(np.zeros(rows, np.int64), 1)
    lengths = _read_lengths(group)
    if lengths.sum() != rows:
        what = f"group sums to {int(lengths.sum()):,}, but X has {rows:,} rows"
        raise DataError(what, "expected the lengths of all lists, in order")
    return Lists(np.repeat(np.arange(lengths.shape[0]), lengths), int(lengths.shape[0]))


def _read_lengths(group: Any) -> Array:
    try:
        given = np.asarray(unmasked(group))
        given = given.astype(np.float64) if given.dtype.kind == "O" else given
    except (TypeError, ValueError):
        given = np.zeros(0)
    sound = given.dtype.kind in "iuf" and given.ndim == 1 and given.shape[0] > 0
    if not sound or not ((given >= 1) & (given < 2**53) & (given == np.floor(given))).all():
        raise DataError("group does not contain list lengths", "expected whole numbers of at least 1, one per list")
    return given.astype(np.int64)


def _from_ids(rows: int, qid: Any) -> Lists:
    ids = np.asarray(qid)
    if ids.shape != (rows,):
        raise DataError(f"qid has shape {list(ids.shape)}, but X has {rows:,} rows", "expected one id per row")
    numbers: dict[Any, int] = {}
    number = np.zeros(rows, np.int64)
    for row, name in enumerate(ids.tolist()):
        if name is None or name != name:
            raise DataError(f"qid is missing in row {row} (from 0)", "expected one id per row")
        number[row] = numbers.setdefault(name, len(numbers))
    return Lists(number, len(numbers))


def read_weights(name: str, weight: Any, count: int, each: str) -> Array:
    """Weights as float64 [count], finite and at least 0, at least one above 0.

    With w = 1 / propensity, multiplying gains by w (:func:`~songrank.core.gains.weighted_labels`) is inverse propensity
    weighting of DCG (Agarwal et al., *A General Framework for Counterfactual Learning-to-Rank*, SIGIR 2019).
    """
    try:
        found: Array = np.asarray(unmasked(weight), np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} is a {type(weight).__name__}", "expected numbers") from None
    if found.shape != (count,):
        raise DataError(f"{name} has shape {list(found.shape)}", f"expected one weight per {each}, [{count}]")
    found = check_not_negative(name, found, np.arange(count), "at position", most=np.finfo(np.float64).max)
    if not found.any():
        raise DataError(f"{name} is all zero", "expected a weight above 0")
    return found


def read_eval_sets(
    eval_set: Any, eval_group: Any, eval_qid: Any, eval_sample_weight: Any
) -> list[tuple[Any, Any, Any, Any, Any]]:
    """X, y, group, qid and sample_weight of each evaluation set."""
    sets = [eval_set] if isinstance(eval_set, tuple) else _listed("eval_set", eval_set, "[(X, y), …]", 0)
    more = {"eval_group": eval_group, "eval_qid": eval_qid, "eval_sample_weight": eval_sample_weight}
    columns: list[list[Any]] = []
    for name, values in more.items():
        column = _listed(name, values, "a list with one entry per evaluation set", len(sets))
        if len(column) != len(sets):
            what = f"{name} has {len(column)} entries for {len(sets)} evaluation sets"
            raise DataError(what, "expected one entry per set")
        columns.append(column)
    for at, pair in enumerate(sets):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            found = f"has {len(pair)} parts" if isinstance(pair, tuple | list) else f"is a {type(pair).__name__}"
            raise DataError(f"eval_set {at} (from 0) {found}", "expected (X, y)")
    return [(*pair, *rest) for pair, *rest in zip(sets, *columns, strict=True)]


def _listed(name: str, values: Any, expected: str, count: int) -> list[Any]:
    """The entries of an argument, one per evaluation set; ``count`` times None by default."""
    if values is None:
        return [None] * count
    sized = hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0
    if not sized or isinstance(values, str | bytes | Mapping | Set) or hasattr(values, "columns"):
        found = shown(values) if isinstance(values, str | int | float) else f"a {type(values).__name__}"
        raise DataError(f"{name} is {found}", f"expected {expected}")
    return list(values)


def read_eval_names(given: Sequence[str] | None, count: int) -> list[str]:
    """Names of the evaluation sets."""
    listed = _listed("eval_names", given, "a list of names", 0)
    names = [f"valid_{at}" for at in range(count)] if given is None else [str(name) for name in listed]
    if len(names) != count or len(set(names)) < count:
        raise DataError(f"eval_names is {shown(given)}", f"expected {count} distinct names")
    return names
