"""What a DocumentRanker is given: documents, labels and lists, checked, and as the table that is prepared."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.core.gains import weighted_labels
from songrank.data.adapters.feature_matrix import Features, unmasked
from songrank.data.adapters.query_groups import Lists, read_lists
from songrank.data.adapters.sample_weights import read_weights


@dataclass(frozen=True)
class Documents:
    """Rows of one split, checked."""

    features: Features
    label: Array
    lists: Lists


@dataclass(frozen=True)
class DocumentTable:
    """Documents as a feature table: names of its columns, and the weight of each training list.

    Columns that are ``ignored`` are there by name alone, so that what they hold does not matter.
    """

    features: tuple[str, ...]
    weight: Array | None
    ignored: tuple[str, ...] = ()

    def columns(self) -> dict[str, str | None]:
        """Which column means what."""
        return {f"{word}_column": self._name(word) for word in ("query", "label", "split")} | {
            "weight_column": None if self.weight is None else self._name("weight")
        }

    def _name(self, word: str) -> str:
        while word in (*self.features, *self.ignored):
            word = f"_{word}"
        return word

    def parts(self, train: Documents, validation: Sequence[Documents]) -> Iterator[pl.DataFrame]:
        """The table, some rows at a time."""
        before = 0
        for split, documents in (("train", train), *(("validation", documents) for documents in validation)):
            number = documents.lists.number
            weight = np.ones(documents.lists.count) if split != "train" or self.weight is None else self.weight
            for first, last, dense in documents.features.blocks():
                part = pl.from_numpy(dense, schema=list(self.features))
                part = part.with_columns(
                    *(pl.lit(None).alias(name) for name in self.ignored),
                    pl.Series(self._name("query"), number[first:last] + before),
                    pl.Series(self._name("label"), documents.label[first:last]),
                    pl.lit(split).alias(self._name("split")),
                )
                if self.weight is not None:
                    part = part.with_columns(pl.Series(self._name("weight"), weight[number[first:last]]))
                yield part
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
    """Check what goes with features.

    Args:
        features: of the documents.
        y: their labels.
        group: lengths of their lists.
        qid: instead, the query of each.
        sample_weight: what multiplies the gain of each; None for 1.
        gain: of labels, as the recipe says.
        prefix: of the names of these arguments in messages.
        one_list: whether they are one list if neither group nor qid is given, and not a mistake.

    """
    if group is None and qid is None and not one_list:
        raise DataError(
            f"neither {prefix}group nor {prefix}qid is given", f"say which rows are one query's: {prefix}group=[…]"
        )
    label = _read_labels(y, features.rows)
    lists = read_lists(features.rows, group, qid)
    if sample_weight is not None:
        weight = read_weights(f"{prefix}sample_weight", sample_weight, features.rows, "row")
        label = weighted_labels(torch.from_numpy(label.astype(np.float64)), torch.from_numpy(weight), gain).numpy()
    return Documents(features, label.astype(np.float32), lists)


def _read_labels(y: Any, rows: int) -> Array:
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None", "give one label a row")
    try:
        given = np.asarray(unmasked(y))
        label: Array = given.astype(np.float64) if given.dtype.kind in "fiubO" else np.zeros(())
    except (TypeError, ValueError):
        label = np.zeros(())
    if label.ndim == 2 and label.shape[1] == 1:
        label = label[:, 0]
    if label.ndim == 0:
        raise DataError(f"y is {shown(y)}", "expected numbers, one a row")
    if label.shape != (rows,):
        raise DataError(f"y has shape {list(label.shape)}, and X has {rows:,} rows", "expected one label a row")
    wrong = np.flatnonzero(~((label >= 0) & (label <= np.finfo(np.float32).max)))
    if wrong.shape[0]:
        at = int(wrong[0])
        raise DataError(f"y is {label[at]} in row {at} (from 0)", "expected a finite number of at least 0")
    return label


def read_eval_sets(
    eval_set: Any, eval_group: Any, eval_qid: Any, eval_sample_weight: Any
) -> list[tuple[Any, Any, Any, Any, Any]]:
    """X, y, group, qid and sample_weight of each evaluation set."""
    sets = [eval_set] if isinstance(eval_set, tuple) else _listed("eval_set", eval_set, "[(X, y), …]", 0)
    more = {"eval_group": eval_group, "eval_qid": eval_qid, "eval_sample_weight": eval_sample_weight}
    columns: list[list[Any]] = []
    for name, values in more.items():
        column = _listed(name, values, "a list with one entry for each of eval_set", len(sets))
        if len(column) != len(sets):
            raise DataError(
                f"{name} has {len(column)} entries for {len(sets)} evaluation sets", "expected one for each"
            )
        columns.append(column)
    for at, pair in enumerate(sets):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            found = f"has {len(pair)} parts" if isinstance(pair, tuple | list) else f"is a {type(pair).__name__}"
            raise DataError(f"eval_set {at} (from 0) {found}", "expected (X, y)")
    return [(*pair, *rest) for pair, *rest in zip(sets, *columns, strict=True)]


def _listed(name: str, values: Any, expected: str, count: int) -> list[Any]:
    """The entries of an argument, one for each evaluation set; so many of None if it is not given."""
    if values is None:
        return [None] * count
    if isinstance(values, str | bytes | Mapping | Set) or hasattr(values, "columns") or not _is_sized(values):
        raise DataError(f"{name} is {_kind(values)}", f"expected {expected}")
    return list(values)


def _is_sized(values: Any) -> bool:
    return hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0


def _kind(values: Any) -> str:
    return shown(values) if isinstance(values, str | int | float) else f"a {type(values).__name__}"


def read_eval_names(given: Sequence[str] | None, count: int) -> list[str]:
    """What the evaluation sets are called."""
    listed = _listed("eval_names", given, "a list of names", 0)
    names = [f"valid_{at}" for at in range(count)] if given is None else [str(name) for name in listed]
    if len(names) != count or len(set(names)) < count:
        raise DataError(f"eval_names is {shown(given)}", f"expected {count} different names")
    return names
