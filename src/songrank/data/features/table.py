"""The encoder of a table of items or users, and the table itself, with one row per id."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from songrank.core.errors import DataError, shown, suggestion
from songrank.core.feature_rows import FeatureRows
from songrank.core.ids import Ids
from songrank.data.features.columns import KINDS, FeatureColumn, join
from songrank.data.features.detection import column_kind
from songrank.io.source import Job
from songrank.io.tables.input_table import InputTable
from songrank.io.tables.polars_frames import need_column
from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids

IGNORE = "ignore"
_EXPECTED_KINDS = ", ".join((*KINDS, IGNORE))


def no_features(file: str) -> DataError:
    """The error for a table without a useful column."""
    return DataError("has no column with features", "expected a column whose values are repeated", file=file)


class EntityTable:
    """A table of items or users: distinct ids, and one row of features each.

    Args:
        source: a file, or a table in memory.
        word: ``"item"`` or ``"user"``.
        usual: usual names of the column of ids, in order.
        job: reports progress.
    """

    def __init__(self, source: Any, word: str, usual: Sequence[str], job: Job) -> None:
        table = InputTable(Path(source) if isinstance(source, str) else source, job)
        self.word, self.file = word, table.name
        names = (*(name.lower().replace(" ", "_") for name in usual), "id")
        self.id_column = need_column("auto", names, table.columns, word, table.name, f"a column named {usual[0]}")
        if len(table.columns) == 1:
            raise no_features(table.name)
        ids, frames = [], []
        for block in table.blocks(table.columns):
            ids.append(block.read(read_ids, self.id_column, ID_EXPECTED))
            frames.append(block.frame.drop(self.id_column))
        texts = any(part.dtype == pl.String for part in ids)
        self.ids = pl.concat([part.cast(pl.String) if texts else part for part in ids])
        self.frame = pl.concat(frames, how="vertical_relaxed")
        if self.ids.n_unique() < len(self.ids):
            again = self.ids.filter(self.ids.is_duplicated())[0]
            raise DataError(f"{word} {shown(again)} is repeated", f"keep one row per {word}", file=self.file)

    def whole(self) -> pl.DataFrame:
        """The ids and all columns."""
        return self.frame.insert_column(0, self.ids.alias(self.id_column))

    def rows_of(self, ids: Ids) -> pl.DataFrame:
        """The row of each id, with missing values for an id that is not in the table."""
        number = ids.find(self.ids).numpy()
        place = np.full(len(ids), -1)
        place[number[number >= 0]] = np.flatnonzero(number >= 0)
        wanted = pl.Series(place).replace(-1, None)
        return self.frame.select(pl.all().gather(wanted))


class TableEncoder:
    """Encoders of the columns of a table.

    >>> movies = pl.DataFrame({"genres": ["a|b", "b", "b|a", None], "year": [1999, 2001, None, 1999]})
    >>> encoder = TableEncoder.fit(movies, movies, {}, "movies.csv")
    >>> [(column.name, column.kind) for column in encoder.columns]
    [('genres', 'multi-valued'), ('year', 'numeric')]
    >>> rows, unknown = encoder.encode(pl.DataFrame({"year": [2000], "genres": ["c|b"]}), "new.csv")
    >>> rows.sizes(), unknown
    ({'rows': 1, 'dense': 2, 'entries': 3, 'width': 10}, {'genres': 1})
    """

    def __init__(self, columns: Sequence[FeatureColumn]) -> None:
        self.columns = list(columns)

    @classmethod
    def fit(cls, frame: pl.DataFrame, train: pl.DataFrame, kinds: Mapping[str, str], file: str) -> "TableEncoder":
        """Learn from the rows ``train`` of ``frame``; ``kinds`` of columns replace the detected ones."""
        for name, kind in kinds.items():
            if name not in frame.columns:
                raise DataError(f"has no column {shown(name)}", suggestion(name, frame.columns), file=file)
            if kind not in (*KINDS, IGNORE):
                raise DataError(f"column {name} has kind {shown(kind)}", f"expected {_EXPECTED_KINDS}", file=file)
        columns = []
        for name in frame.columns:
            chosen = kinds.get(name) or column_kind(frame[name])
            if chosen is None or chosen == IGNORE:
                continue
            column = KINDS[chosen].fit(frame[name], train[name], file)
            if column.is_useful:
                columns.append(column)
        if not columns:
            raise no_features(file)
        return cls(columns)

    def encode(self, frame: pl.DataFrame, file: str) -> tuple[FeatureRows, dict[str, int]]:
        """The features of all rows, and the number of unknown values by column, if any."""
        for column in self.columns:
            if column.name not in frame.columns:
                fix = f"expected the columns {', '.join(one.name for one in self.columns)}"
                raise DataError(f"has no column {shown(column.name)}", fix, file=file)
        parts = [column.encode(frame[column.name], file) for column in self.columns]
        starts = np.cumsum([0, *(column.sparse for column in self.columns)])
        joined = join(parts, starts[:-1].tolist())
        dense, lengths, index, value = (torch.from_numpy(array) for array in joined)
        rows = FeatureRows.of(dense, lengths, index, value, int(starts[-1]))
        return rows, {c.name: p.unknown for c, p in zip(self.columns, parts, strict=True) if p.unknown}

    def described(self) -> list[dict[str, Any]]:
        """The description of all columns for JSON."""
        return [column.described() for column in self.columns]

    def arrays(self) -> dict[str, Tensor]:
        """What was learned, by number of the column and name."""
        return {f"{at}.{name}": a for at, column in enumerate(self.columns) for name, a in column.arrays.items()}

    @classmethod
    def restore(cls, told: Sequence[Mapping[str, Any]], arrays: Mapping[str, Tensor]) -> "TableEncoder":
        """The inverse of :meth:`described` and :meth:`arrays`."""
        columns = []
        for at, numbers in enumerate(told):
            own = {name.partition(".")[2]: a for name, a in arrays.items() if name.partition(".")[0] == str(at)}
            learned = {key: value for key, value in numbers.items() if key not in ("name", "kind")}
            columns.append(KINDS[numbers["kind"]](str(numbers["name"]), learned, own))
        return cls(columns)
