"""Files and tables to prepared data sets: folders that memory-map, open in a blink and never surprise."""

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.dataset import CatalogueSplit, Dataset, ListSplit, open_dataset
from songrank.data.prepare import prepare

__all__ = ["CatalogueSplit", "DataError", "Dataset", "Ids", "ListSplit", "open_dataset", "prepare"]
