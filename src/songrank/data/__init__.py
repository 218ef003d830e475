"""Files and tables to prepared data sets: folders that memory-map, open in a blink and never surprise."""

from songrank.data.dataset import CatalogueSplit, Dataset, ListSplit, SparseRows, open_dataset
from songrank.data.errors import DataError
from songrank.data.ids import Ids
from songrank.data.prepare import prepare

__all__ = [
    "CatalogueSplit",
    "DataError",
    "Dataset",
    "Ids",
    "ListSplit",
    "SparseRows",
    "open_dataset",
    "prepare",
]
