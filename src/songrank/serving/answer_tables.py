"""Predictions as tables: one row per item or label, with score and rank."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.processes import Processes
from songrank.serving.labels import Labels
from songrank.serving.recommendations import Recommendations


class Written(NamedTuple):
    """Counts of a written file: queries, rows, and new users."""

    queries: int
    rows: int
    new_users: int = 0

    def total(self, processes: Processes) -> "Written":
        """The counts of all processes."""
        counts = torch.tensor(self, device=processes.device)
        return Written(*processes.add(counts).tolist())


def recommendation_frame(
    batches: Sequence[Recommendations],
    names: tuple[str, str],
    users: pl.Series,
    items: pl.Series,
    titles: pl.Series | None = None,
) -> pl.DataFrame:
    """Table of user, item, score, rank and source (``model`` or ``popular``); ``names`` are the first two columns.

    ``titles`` by item index follow the items, in a column of their name.
    """

    def column(parts: list[Tensor], dtype: torch.dtype = torch.int64) -> Array:
        return np.asarray(torch.cat([torch.zeros(0, dtype=dtype), *parts]).numpy())

    known = column([batch.known for batch in batches], torch.bool)
    item = column([batch.item for batch in batches])
    return pl.DataFrame(
        {
            names[0]: users.gather(column([batch.position for batch in batches])),
            names[1]: items.gather(item),
            **({} if titles is None else {titles.name: titles.gather(item)}),
            "score": column([batch.score for batch in batches], torch.float32),
            "rank": column([batch.rank for batch in batches]),
            "source": np.where(known, "model", "popular"),
        }
    )


def label_frame(first: pl.Series, found: Labels, labels: pl.Series, titles: pl.Series | None = None) -> pl.DataFrame:
    """Table of text, label, score and rank; ``first`` identifies each text, ``labels`` are the ids of all labels.

    ``titles`` by label index follow the labels, in a column of their name.
    """
    count, wide = found.item.shape
    item = found.item.reshape(-1).numpy()
    return pl.DataFrame(
        {
            first.name: first.gather(np.repeat(np.arange(count), wide)),
            "label": labels.gather(item),
            **({} if titles is None else {titles.name: titles.gather(item)}),
            "score": found.score.reshape(-1).numpy(),
            "rank": np.tile(np.arange(1, wide + 1), count),
        }
    )
