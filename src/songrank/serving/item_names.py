"""Readable names of items or labels, such as titles of movies, from a table."""

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.readers.interactions import ITEM_NAMES
from songrank.io.source import Job
from songrank.io.tables.input_table import InputTable
from songrank.io.tables.polars_frames import find_column, need_column
from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids
from songrank.models.model_folder import ModelFolder

_NAMES = ("title", "name", "item_name", "movie_title", "product_name", "product_title", "item_title", "description")
_LABELS = ("label", "label_id", "id")
_FORMULA = ("=", "+", "-", "@")


def read_names(
    file: Path,
    folder: ModelFolder,
    *,
    item_column: str | None = None,
    name_column: str | None = None,
    job: Job | None = None,
) -> list[str | None]:
    """The name of each item or label of a model by index, from a CSV, TSV or Parquet file; None for items without one.

    Columns are found by their names: that of the items as in training, ``title`` or ``name`` for the names. The first
    name of an item counts; items that the model does not know are ignored.
    """
    assert folder.item_ids is not None
    table, known = InputTable(file, job or Job()), folder.item_ids
    word = "label" if folder.task == "labelling" else "item"
    called = str(folder.info.get("called", {}).get("item", "item")).lower()
    usual: Sequence[str] = _LABELS if word == "label" else (called, *ITEM_NAMES, "id")
    item = need_column(item_column or "auto", usual, table.columns, word, table.name)
    name = find_column(name_column or "auto", _NAMES, [c for c in table.columns if c != item], "name", table.name)
    if name is None:
        name = need_column("auto", _NAMES, table.columns, "name", table.name)
    found: list[str | None] = [None] * len(known)
    for block in table.blocks([item, name]):
        _add(found, known, block.read(read_ids, item, ID_EXPECTED), block.frame[name])
    if not any(value is not None for value in found):
        what = f"has a name for none of the {len(known):,} {word}s of the model"
        raise DataError(what, f"check the column of {word}s, {item!r}", file=table.name)
    return found


def title_column(
    file: Path,
    folder: ModelFolder,
    output: Path,
    warn: Callable[[str], None],
    *,
    item_column: str | None = None,
    name_column: str | None = None,
) -> pl.Series:
    """The column ``title`` of answers, by item index: :func:`read_names` as plain text, empty where missing.

    Control characters become spaces, so that a name cannot steer a terminal. In CSV, a name that a spreadsheet would
    evaluate as a formula starts with an apostrophe.
    """
    found = read_names(file, folder, item_column=item_column, name_column=name_column)
    if missing := sum(name is None for name in found):
        words = "labels" if folder.task == "labelling" else "items"
        warn(f"{file}: {missing:,} of {len(found):,} {words} of the model have no name")
    texts = ["".join(c if c.isprintable() else " " for c in name or "") for name in found]
    if output.suffix == ".csv":
        texts = [f"'{text}" if text.lstrip().startswith(_FORMULA) else text for text in texts]
    return pl.Series("title", texts, dtype=pl.String)


def _add(names: list[str | None], known: Ids, ids: pl.Series, values: pl.Series) -> None:
    numbers: Sequence[int] = known.find(ids).tolist()
    for number, value in zip(numbers, values.cast(pl.String).to_list(), strict=True):
        if number >= 0 and value and names[number] is None:
            names[number] = value
