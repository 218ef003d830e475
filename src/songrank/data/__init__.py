"""Preparation of files and tables into data sets: directories of memory-mapped arrays."""

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.dataset import CatalogueSplit, Dataset, ListSplit, open_dataset
from songrank.data.prepare import prepare

__all__ = ["CatalogueSplit", "DataError", "Dataset", "Ids", "ListSplit", "open_dataset", "prepare"]
