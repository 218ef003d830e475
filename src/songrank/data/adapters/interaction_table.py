"""Interaction tables in memory: user, item, optionally label, time and split, with original ids."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.adapters.frames import is_table, kind_of, read_table
from songrank.data.preparation.interaction_log import Interactions
from songrank.data.preparation_options import ColumnOptions
from songrank.data.readers.interactions import Collector, InteractionColumns
from songrank.io.tables.input_table import Block
from songrank.io.tables.polars_frames import TABLE, to_polars
from songrank.io.tables.typed_columns import LABEL_EXPECTED, read_column, read_ids, read_labels

COLUMNS = ("user", "item", "label", "time")
SPLIT = "split"
HISTORY = ("user", "item", "time")


@dataclass(frozen=True)
class InteractionTable:
    """Rows with standard column names, the original names, and the type of the input table.

    With a column ``split``, ``fraction`` of each user's training rows is for validation.
    """

    frame: pl.DataFrame
    names: Mapping[str, str]
    kind: str
    fraction: float = 0.0

    def options(self) -> dict[str, Any]:
        """Options of preparation that name the columns of :meth:`called`."""
        named: dict[str, Any] = {f"{word}_column": self.names.get(word) for word in COLUMNS}
        if SPLIT in self.names:
            named |= {"split_column": self.names[SPLIT], "validation": self.fraction}
        return named

    def called(self) -> pl.DataFrame:
        """The table to prepare, with original column names, which a model keeps for its output."""
        return self._prepared().rename(dict(self.names))

    def _prepared(self) -> pl.DataFrame:
        return self.frame.with_columns(id_keys(self.frame["user"]), id_keys(self.frame["item"]))

    def log(self) -> Interactions:
        """The interaction log, with numbers in place of ids."""
        label, time = (word if word in self.names else None for word in ("label", "time"))
        collector = Collector(InteractionColumns("user", "item", label, time))
        collector.add(Block(self._prepared(), TABLE))
        return collector.finish()

    def with_splits(self, held_out: "Mapping[str, InteractionTable]", fraction: float = 0.0) -> "InteractionTable":
        """These rows for training, followed by the rows of other splits, in a table with a column of splits."""
        table = self._in_split("train")
        for split, rows in held_out.items():
            try:
                table = table.and_more(rows._in_split(split))
            except DataError as error:
                raise DataError(error.what, error.fix.replace("in fit", "for training"), file=split) from None
        return replace(table, fraction=fraction)

    def _in_split(self, split: str) -> "InteractionTable":
        """The same rows, all of this split."""
        name = SPLIT
        while name in self.names.values():
            name += "_"
        return replace(
            self, frame=self.frame.with_columns(pl.lit(split).alias(SPLIT)), names={**self.names, SPLIT: name}
        )

    def and_more(self, more: "InteractionTable") -> "InteractionTable":
        """These rows, followed by those of another table with the same columns, for training if it has no splits."""
        if SPLIT in self.names and SPLIT not in more.names:
            more = more._in_split("train")
        try:
            if set(more.frame.columns) != set(self.frame.columns):
                raise pl.exceptions.ShapeError
            if "time" in more.names and _kind(more.frame["time"].dtype) != _kind(self.frame["time"].dtype):
                raise pl.exceptions.SchemaError
            both = pl.concat([self.frame, more.frame.select(self.frame.columns)], how="vertical_relaxed")
        except pl.exceptions.PolarsError:
            found, expected = (", ".join(f"{k} {v}" for k, v in f.schema.items()) for f in (more.frame, self.frame))
            raise DataError(f"columns are {found}", f"expected {expected}, as in fit") from None
        return replace(self, frame=both)

    def original(self, word: str, ids: Ids) -> pl.Series:
        """The original value of each id, by number, in its input type if known, else as a string."""
        column, keys = self.frame[word], pl.Series(list(ids))
        if column.dtype.is_integer() or column.dtype == pl.String:
            return keys.cast(column.dtype)
        distinct = column.unique()
        number = ids.find(id_keys(distinct).to_list()).numpy()
        if len(set(number.tolist()) - {-1}) < len(ids):  # saved without its rows
            return keys
        place = np.empty(len(ids), np.int64)
        place[number[number >= 0]] = np.flatnonzero(number >= 0)
        return distinct.gather(place)

    def pairs(self, table: Any, y: Any = None) -> pl.DataFrame:
        """Rows of another table with standard column names; labels from ``y`` if given."""
        frame = read_table(table, COLUMNS)
        called = {word: name if name in frame.columns else word for word, name in self.names.items()}
        called = {word: name for word, name in called.items() if name in frame.columns}
        if not {"user", "item"} <= called.keys():
            what = f"the table has columns {', '.join(map(repr, frame.columns))}"
            raise DataError(what, f"expected {self.names['user']!r} and {self.names['item']!r}")
        frame = frame.select(pl.col(name).alias(word) for word, name in called.items())
        frame = frame.with_columns(self._typed(frame[word], word) for word in ("user", "item"))
        return frame if y is None else _with_labels(frame, y)

    def _typed(self, column: pl.Series, word: str) -> pl.Series:
        """Ids cast to the fitted type if it determines how numbers are written."""
        fitted = self.frame.schema[word]
        return column.cast(fitted) if fitted.is_float() and column.dtype.is_numeric() else column

    def given(self, values: Any, word: str) -> pl.Series:
        """Ids of users or items, given alone or as a column of a table."""
        if is_table(values) or isinstance(values, Mapping):
            frame, name = read_table(values, (word,)), self.names[word]
            if name not in frame.columns and frame.width > 1:
                fix = f"expected it among {', '.join(frame.columns)}"
                raise DataError(f"the table of {word}s has no column {name!r}", fix)
            return self._typed(frame[name] if name in frame.columns else frame.to_series(0), word)
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise DataError(f"{word}s is {values!r}", f"expected a sequence: [{values!r}]")
        in_memory = hasattr(values, "dtype") or kind_of(values) == "pyarrow"
        column = to_polars({word: values})[word] if in_memory else pl.Series(word, list(values), strict=False)
        return self._typed(column, word)


def read_interactions(table: Any, y: Any, columns: ColumnOptions) -> InteractionTable:
    """Read user and item, and label and time if present."""
    frame = read_table(table, COLUMNS)
    if y is not None:
        frame = _with_labels(frame, y)
        columns = columns.model_copy(update={"label_column": "label"})
    found = InteractionColumns.find(frame.columns, columns, TABLE, ("user=…", "item=…"))
    columns_found = (found.query, found.item, found.label, found.time, found.split)
    names = dict(zip((*COLUMNS, SPLIT), columns_found, strict=True))
    called = {word: name for word, name in names.items() if name is not None}
    frame = frame.select(pl.col(name).alias(word) for word, name in called.items())
    frame = frame.with_columns(id_keys(frame[name]) for name, kind in frame.schema.items() if kind == pl.Object)
    return InteractionTable(frame, called, kind_of(table))


def label_column(frame: pl.DataFrame, options: Mapping[str, Any]) -> Array:
    """Labels of a table's rows after preparation with these options; 1 without a label column."""
    if "label" not in frame.columns:
        return np.ones(frame.height, np.float32)
    label = read_column(read_labels, frame["label"], LABEL_EXPECTED, TABLE, None)
    if options.get("min_rating") is not None:
        label = np.where(label >= options["min_rating"], label, 0)
    return (label > 0 if options.get("labels") == "binary" else label).astype(np.float32)


def _kind(time: pl.DataType) -> str:
    """Type of a time column; different types cannot be ordered together."""
    return "dates" if time.is_temporal() else "numbers" if time.is_numeric() else "texts"


def _with_labels(frame: pl.DataFrame, y: Any) -> pl.DataFrame:
    """The table with these labels, one per row, in a column ``label``."""
    column = pl.Series("label", np.asarray(y).reshape(-1))
    if len(column) != frame.height:
        raise DataError(f"y has {len(column):,} labels, but the table {frame.height:,} rows", "expected one per row")
    return frame.with_columns(column)


def id_keys(column: pl.Series) -> pl.Series:
    """Ids as whole numbers or strings, as in preparation; other types become strings, missing values stay missing.

    A key depends only on the value of the id, not on other values of the column or the unit of a date.
    """
    column = column.fill_nan(None) if column.dtype.is_float() else column
    column = column.dt.total_nanoseconds() if column.dtype == pl.Duration else column
    known = column.drop_nulls()
    found = _instants(known) if known.dtype == pl.Datetime else read_ids(known)
    if found is None:
        found = pl.Series([_text(value) for value in known.to_list()], dtype=pl.String)
    if len(known) < len(column):
        empty = pl.repeat(None, len(column), dtype=found.dtype, eager=True)
        found = empty.scatter(column.is_not_null().arg_true(), found)
    return found.alias(column.name)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _instants(column: pl.Series) -> pl.Series:
    """Datetimes as strings, in UTC if they have a zone: microseconds, and nanoseconds if there are any."""
    column = column if column.dtype.time_zone is None else column.dt.convert_time_zone("UTC")  # type: ignore[attr-defined]
    texts = column.dt.cast_time_unit("us").cast(pl.String)
    if column.dtype.time_unit != "ns":  # type: ignore[attr-defined]
        return texts
    rest = column.to_physical() % 1000
    return texts + pl.select(pl.when(rest > 0).then(rest.cast(pl.String)).otherwise(pl.lit(""))).to_series()
