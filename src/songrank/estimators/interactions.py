"""Tables of interactions as the Recommender reads them, and what it keeps of them when it is saved."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from songrank.data.errors import DataError
from songrank.data.recommendation.interactions import Names
from songrank.data.recommendation.options import ColumnOptions
from songrank.data.tables.frames import TABLE
from songrank.estimators.tables import kind_of, read_table
from songrank.inference.model_folder import ModelFolder
from songrank.training.carry_over import Past

COLUMNS = ("user", "item", "label", "time")
_TOLD, _TABLE, _PAST = "recommender.json", "interactions.parquet", "past.safetensors"


@dataclass(frozen=True)
class Interactions:
    """What was fitted, under our names, with what the columns were called and the kind of table they came in."""

    frame: pl.DataFrame
    names: Mapping[str, str]
    kind: str

    def prepared(self) -> pl.DataFrame:
        """With ids as whole numbers or texts."""
        return self.frame.with_columns(as_ids(self.frame["user"]), as_ids(self.frame["item"]))

    def and_more(self, more: "Interactions") -> "Interactions":
        """These, then others, which must have the same columns."""
        if more.frame.schema != self.frame.schema:
            found, expected = (", ".join(f"{k} {v}" for k, v in f.schema.items()) for f in (more.frame, self.frame))
            raise DataError(f"columns are {found}", f"expected {expected}, as in fit")
        return Interactions(pl.concat([self.frame, more.frame]), self.names, self.kind)

    def original(self, column: pl.Series, word: str) -> pl.Series:
        """Ids in the type that they came in."""
        kind = self.frame.schema[word]
        try:
            return column.str.strptime(kind) if kind.is_temporal() else column.cast(kind)  # type: ignore[arg-type]
        except pl.exceptions.PolarsError:
            return column

    def without_rows(self) -> "Interactions":
        """Names and types alone."""
        return Interactions(self.frame.clear(), self.names, self.kind)


def read_interactions(table: Any, y: Any, columns: ColumnOptions) -> Interactions:
    """Read user, item, and label and time if there are any.

    >>> found = read_interactions({"visitor_id": [1], "asin": ["b7"]}, None, ColumnOptions())
    >>> found.names, found.frame.columns
    ({'user': 'visitor_id', 'item': 'asin'}, ['user', 'item'])
    """
    frame = read_table(table, COLUMNS)
    if y is not None:
        frame = frame.with_columns(pl.Series("label", np.asarray(y)))
        columns = columns.model_copy(update={"label_column": "label"})
    names = Names.find(frame.columns, columns, TABLE)
    found = {"user": names.query, "item": names.item, "label": names.label, "time": names.time}
    called = {word: name for word, name in found.items() if name is not None}
    frame = frame.select(pl.col(name).alias(word) for word, name in called.items())
    strange = [name for name, kind in frame.schema.items() if kind == pl.Object]
    frame = frame.with_columns(as_ids(frame[name]) for name in strange)
    return Interactions(frame, called, kind_of(table))


def as_ids(column: pl.Series) -> pl.Series:
    """Whole numbers and texts as they are, all else as text.

    >>> as_ids(pl.Series([1.5, None])).to_list()
    ['1.5', None]
    """
    if column.dtype.is_integer() or column.dtype == pl.String:
        return column
    return pl.Series(column.name, [None if value is None else str(value) for value in column.to_list()], pl.String)


def pack(interactions: Interactions, past: Past | None) -> dict[str, bytes]:
    """Files to save; without a past, names and types alone."""
    from safetensors.torch import save

    kept = interactions if past is not None else interactions.without_rows()
    told = {"names": dict(kept.names), "kind": kept.kind, "loss": None if past is None else past.loss}
    table = io.BytesIO()
    kept.frame.write_parquet(table)
    files = {_TOLD: json.dumps(told).encode(), _TABLE: table.getvalue()}
    if past is not None:
        files[_PAST] = save({"pairs": past.pairs, **{f"memory.{name}": rows for name, rows in past.memory.items()}})
    return files


def unpack(files: Mapping[str, bytes], folder: ModelFolder) -> tuple[Interactions, Past | None]:
    """The way back from :func:`pack`, with the model that was saved beside."""
    from safetensors.torch import load

    told = json.loads(files[_TOLD])
    interactions = Interactions(pl.read_parquet(io.BytesIO(files[_TABLE])), dict(told["names"]), str(told["kind"]))
    if _PAST not in files:
        return interactions, None
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    arrays = load(files[_PAST])
    memory = {name.removeprefix("memory."): rows for name, rows in arrays.items() if name != "pairs"}
    weights = {name: tensor.cpu() for name, tensor in folder.model.state_dict().items()}
    past = Past(folder.query_ids, folder.item_ids, weights, arrays["pairs"], str(told["loss"]), memory)
    return interactions, past
