"""Prediction in the processes of other engines, such as Ray Data and Spark: tables in, tables out."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from songrank.core.errors import DataError, UserError
from songrank.core.text import counted
from songrank.data.adapters.frames import kind_of, write_table
from songrank.data.readers.feature_table import QUERY_NAMES
from songrank.data.readers.interactions import USER_NAMES
from songrank.io.tables.input_table import as_ids, id_column
from songrank.io.tables.polars_frames import TABLE, need_column, to_polars
from songrank.io.tables.typed_columns import ID_EXPECTED, read_column, read_features, read_ids
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import label_frame, recommendation_frame
from songrank.serving.documents import rank_documents, score_documents
from songrank.serving.label_file import read_texts
from songrank.serving.labels import Labels, label
from songrank.serving.open import open_model
from songrank.serving.recommendations import FALLBACKS, check_count, column_names, known_ids, recommend


class BatchPredictor:
    """A model folder as a function from tables to tables, for engines that call it in many processes.

    It can be pickled: a copy holds the path only, and opens the model at its first call. A table is a pandas, polars or
    Arrow table, or a dict of arrays; the result has the same type.

    ============== ============================================== ====================================================
    task           columns of a table                             columns of the result
    ============== ============================================== ====================================================
    recommendation users                                          user, item, score, rank, source, ``k`` rows per user
    labelling      texts, and others, such as ids                 the others, label, score, rank, ``k`` rows per text
    search         queries, the features of training, and others  queries and others, score, rank, in the same order
    ============== ============================================== ====================================================

    ``ray.data.Dataset.map_batches`` takes the class, ``pyspark.sql.DataFrame.mapInPandas`` the method :meth:`over`; see
    ``examples/ray_data.py`` and ``examples/spark_data.py``. A call ranks the documents of a query among those of its
    table, so a table must have whole lists; :meth:`over` joins lists that two tables share.

    Args:
        path: model folder or finished run, at the same path on all machines.
        k: items per user or labels per text.
        column: the column of users, texts or queries; by default found by its name.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        exclude_seen: exclude the user's seen items.
        allow: ids of items that may be recommended; None for all.
        deny: ids of items that must not be recommended.
        fallback: for new users: ``"popular"``, ``"none"`` or ``"error"``.

    >>> import tempfile
    >>> from songrank import Recommender
    >>> clicks = {"user": [n // 5 for n in range(100)], "item": [n * n % 23 for n in range(100)]}
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> Recommender(model="ease", verbose=0).fit(clicks).save(folder)
    >>> found = BatchPredictor(folder, k=2)({"user": [3, 99]})
    >>> found["user"].tolist(), found["rank"].tolist(), found["source"].tolist()
    ([3, 3, 99, 99], [1, 2, 1, 2], ['model', 'model', 'popular', 'popular'])
    """

    def __init__(
        self,
        path: str | Path,
        k: int = 10,
        *,
        column: str | None = None,
        device: str = "auto",
        exclude_seen: bool = True,
        allow: Any = None,
        deny: Any = None,
        fallback: str = "popular",
    ) -> None:
        if fallback not in FALLBACKS:
            raise UserError(f"fallback is {fallback!r}; expected one of {', '.join(map(repr, FALLBACKS))}")
        self.path, self.k, self.column, self.device = os.path.abspath(path), check_count("k", k), column, device
        self._limits = {"exclude_seen": exclude_seen, "allow": allow, "deny": deny, "fallback": fallback}
        self._folder: ModelFolder | None = None

    def __repr__(self) -> str:
        return f"BatchPredictor({self.path!r}, k={self.k})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the model, which each process opens."""
        return {**vars(self), "_folder": None}

    def __call__(self, table: Any) -> Any:
        """The predictions for the rows of a table."""
        return write_table(self._predict(to_polars(table)), kind_of(table))

    def over(self, tables: Iterable[Any]) -> Iterator[Any]:
        """The predictions for each of many tables.

        Documents of a query may be in successive tables: those of the last query wait for the next table.
        """
        kind, kept = "", None
        for table in tables:
            kind, frame = kind_of(table), to_polars(table)
            if self.folder.task == "search" and frame.height:
                frame = frame if kept is None else pl.concat([kept, frame], how="vertical_relaxed")
                queries = frame[self._query_column(frame)]
                others = (queries != queries[-1]).arg_true()
                start = int(others[-1]) + 1 if len(others) else 0  # of the last query
                frame, kept = frame[:start], frame[start:]
            if frame.height:
                yield write_table(self._predict(frame), kind)
        if kept is not None and kept.height:
            yield write_table(self._predict(kept), kind)

    @property
    def folder(self) -> ModelFolder:
        """The model folder, opened at first use."""
        if self._folder is None:
            self._folder = open_model(self.path, self.device)
        return self._folder

    def _predict(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.folder.task == "recommendation":
            return self._recommendations(frame)
        if self.folder.task == "labelling":
            return self._labels(frame)
        return self._ranks(frame)

    def _recommendations(self, frame: pl.DataFrame) -> pl.DataFrame:
        query_ids, item_ids = known_ids(self.folder)
        called = self.folder.info.get("called", {})
        user, item = column_names(called.get("query", "user"), called.get("item", "item"))
        name = need_column(self.column or "auto", (user.lower(), *USER_NAMES), frame.columns, "user", TABLE, "column")
        if not frame.height:
            return recommendation_frame([], (name, item), frame[name], id_column(item_ids))
        asked = as_ids([read_column(read_ids, frame[name], ID_EXPECTED, TABLE)])
        asked = asked if query_ids.kind == "integer" else asked.cast(pl.String)
        found = list(recommend(self.folder, asked, self.k, **self._limits))
        return recommendation_frame(found, (name, item), frame[name], id_column(item_ids))

    def _labels(self, frame: pl.DataFrame) -> pl.DataFrame:
        if not self.folder.reads_texts:
            raise UserError(f"{self.path}: reads features, not texts; use `songrank label`")
        name = need_column(self.column or "auto", ("text",), frame.columns, "text", TABLE, "column")
        others = frame.drop(name)
        _check_free(others, "label", "score", "rank")
        texts = read_column(read_texts, frame[name], "expected a string", TABLE)
        assert self.folder.item_ids is not None
        parts = list(label(self.folder, texts, self.k)) if texts else []
        width = min(self.k, len(self.folder.item_ids))
        item = torch.cat([torch.zeros(0, width, dtype=torch.int64), *(part.item for part in parts)])
        score = torch.cat([torch.zeros(0, width), *(part.score for part in parts)])
        found = label_frame(
            pl.Series("row", np.arange(len(texts))), Labels(item, score), id_column(self.folder.item_ids)
        )
        return pl.concat([others[found["row"]], found.drop("row")], how="horizontal")

    def _ranks(self, frame: pl.DataFrame) -> pl.DataFrame:
        names = self._feature_names()
        others = frame.drop(names, strict=False)
        query = self._query_column(frame)
        _check_free(others, "score", "rank")
        missing = [name for name in names if name not in frame.columns]
        if missing:
            fix = f"expected the {counted(len(names), 'features')} of training"
            raise DataError(f"has no column {missing[0]!r}", fix, file=TABLE)
        number = np.zeros(frame.height, np.int64)
        features = np.empty((frame.height, len(names)), np.float32)
        if frame.height:
            ids = read_column(read_ids, frame[query], ID_EXPECTED, TABLE)
            number = np.unique(ids.to_numpy(), return_inverse=True)[1]
        for at, name in enumerate(names):
            fix = "expected a finite number, or empty if missing"
            features[:, at] = read_column(read_features, frame[name], fix, TABLE)
        rows, lengths = np.argsort(number, kind="stable"), np.bincount(number)
        score = np.empty(frame.height, np.float32)
        if frame.height:
            score[rows] = score_documents(self.folder, features[rows], lengths)
        rank, _ = rank_documents(score, number)
        return others.with_columns(pl.Series("score", score), pl.Series("rank", rank))

    def _feature_names(self) -> list[str]:
        names = self.folder.info["features"].get("names")
        if names is None:
            raise UserError(f"{self.path}: reads numbered features of LETOR files; use `songrank rank`")
        return list(names)

    def _query_column(self, frame: pl.DataFrame) -> str:
        others = [name for name in frame.columns if name not in self._feature_names()]
        return need_column(self.column or "auto", QUERY_NAMES, others, "query", TABLE, "column")


def _check_free(frame: pl.DataFrame, *added: str) -> None:
    taken = [name for name in added if name in frame.columns]
    if taken:
        raise DataError(f"has a column {taken[0]!r}, which the result adds", "rename or remove it", file=TABLE)
