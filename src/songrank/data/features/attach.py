"""Features of items and users for prepared interactions."""

from collections.abc import Mapping

import numpy as np
import polars as pl
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.content import Arrays, Content, EntityFeatures
from songrank.data.features.table import EntityTable, TableEncoder


def attach_features(
    content: Content, tables: Mapping[str, EntityTable], kinds: Mapping[str, Mapping[str, str]]
) -> None:
    """Add the features of ``tables``, by ``"item"`` and ``"user"``; their ids without interactions are added, too.

    Encoders learn from the items and users with training pairs; ``kinds`` of columns replace the detected ones.
    """
    for word, table in tables.items():
        known = content.item_ids if word == "item" else content.query_ids
        assert isinstance(known, Ids)
        ids = union_ids(known, table)
        place = ids.find(list(known)).numpy()
        if word == "item":
            content.item_ids = ids
            _renumber(content.splits, place.astype(np.int32))
        else:
            content.query_ids = ids
            _spread(content.splits, place, len(ids))
        trained = _trained(content, word, len(ids))
        rows = table.rows_of(ids)
        given = np.zeros(len(ids), bool)
        given[ids.find(table.ids).numpy()] = True
        learn = rows.filter(pl.Series(trained & given))
        if not learn.height:
            fix = f"expected the ids of the interactions in column {table.id_column!r}"
            raise DataError(f"has no {word} with training pairs", fix, file=table.file)
        encoder = TableEncoder.fit(rows, learn, kinds.get(word, {}), table.file)
        found, _ = encoder.encode(rows, table.file)
        found = found.with_trained(torch.from_numpy(trained))
        counts = {"without_pairs": len(ids) - len(known), "without_row": int((~given).sum())}
        content.features[word] = EntityFeatures(found, encoder.described(), encoder.arrays(), counts)


def union_ids(known: Ids, table: EntityTable) -> Ids:
    """The known ids, and those of the table, in the order of one kind."""
    if known.kind == "text":
        return Ids.from_texts(sorted({*known, *table.ids.cast(pl.String)}, key=str.encode))
    whole = table.ids.cast(pl.Int64, strict=False)
    if whole.null_count():
        wrong = table.ids.filter(whole.is_null())[0]
        fix = f"expected whole numbers, as the {table.word}s of the interactions"
        raise DataError(f"{table.id_column} is {shown(wrong)}", fix, file=table.file)
    return Ids.of(np.concatenate([np.array(list(known), np.int64), whole.to_numpy()]))


def _renumber(splits: Mapping[str, Arrays], place: Array) -> None:
    for arrays in splits.values():
        for name in ("item", "met.item", "cold.item"):
            if name in arrays:
                arrays[name] = place[np.asarray(arrays[name])]


def _spread(splits: Mapping[str, Arrays], place: Array, rows: int) -> None:
    """Insert empty rows for users without interactions."""
    for arrays in splits.values():
        for name in ("offsets", "met.offsets", "cold.offsets"):
            if name in arrays:
                lengths = np.zeros(rows, np.int64)
                lengths[place] = np.diff(np.asarray(arrays[name]))
                arrays[name] = numpy_offsets(lengths)


def _trained(content: Content, word: str, rows: int) -> Array:
    """Which items or users have training pairs."""
    train = content.splits["train"]
    if word == "user":
        found: Array = np.diff(np.asarray(train["offsets"])) > 0
        return found
    return np.bincount(np.asarray(train["item"]), minlength=rows) > 0
