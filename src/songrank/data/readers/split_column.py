"""The column of a table that names the split of each row."""

import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import shown
from songrank.data.dataset import SPLITS
from songrank.data.split_names import SPLIT_WORDS
from songrank.io.tables.input_table import Block

_CODES = {word: SPLITS.index(split) for word, split in SPLIT_WORDS.items()}
_MAX_SHOWN = 5


def read_splits(block: Block, name: str) -> Array:
    """The split of each row as 0, 1 or 2; the error names the first invalid row, and lists unknown values.

    >>> rows = pl.DataFrame({"part": ["train", "Dev", "test", "valid"]})
    >>> read_splits(Block(rows, "rows.csv"), "part").tolist()
    [0, 1, 2, 1]
    """
    fix, unknown = "expected train, validation or test, or a synonym such as val or dev", _unknown(block.frame[name])
    if len(unknown) > 1:
        more = f" and {len(unknown) - _MAX_SHOWN:,} more" if len(unknown) > _MAX_SHOWN else ""
        fix += f"; unknown values are {', '.join(map(shown, unknown[:_MAX_SHOWN]))}{more}"
    return block.read(_codes, name, fix)


def _codes(column: pl.Series) -> Array | None:
    """Codes of splits, or None if a name is missing or unknown."""
    if column.null_count() or not _is_text(column):
        return None
    found = _words(column).replace_strict(list(_CODES), list(_CODES.values()), default=None, return_dtype=pl.UInt8)
    return None if found.null_count() else found.to_numpy()


def _unknown(column: pl.Series) -> list[str]:
    """The distinct values that name no split, in order of appearance."""
    values = column.drop_nulls().cast(pl.String) if _is_text(column) else pl.Series([], dtype=pl.String)
    return values.filter(~_words(values).is_in(list(_CODES))).unique(maintain_order=True).to_list()


def _is_text(column: pl.Series) -> bool:
    return column.dtype in (pl.String, pl.Categorical, pl.Enum)


def _words(column: pl.Series) -> pl.Series:
    return column.cast(pl.String).str.strip_chars().str.to_lowercase()
