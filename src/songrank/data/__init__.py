"""Preparation of files and tables into data sets: directories of memory-mapped arrays."""

from typing import TYPE_CHECKING

from songrank.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from songrank.core.errors import DataError
    from songrank.core.ids import Ids
    from songrank.data.dataset import CatalogueSplit, Dataset, ListSplit, open_dataset
    from songrank.data.preparing import prepare

__all__ = ["CatalogueSplit", "DataError", "Dataset", "Ids", "ListSplit", "open_dataset", "prepare"]

_HOMES = {"DataError": "songrank.core.errors", "Ids": "songrank.core.ids", "prepare": ".preparing"}
__getattr__ = lazy_names(__name__, {**dict.fromkeys(__all__, ".dataset"), **_HOMES})
