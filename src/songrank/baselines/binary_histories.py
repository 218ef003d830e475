"""What a yardstick knows of a query: the items of its history, each once."""

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.relevance import Relevance
from songrank.data import CatalogueSplit


def histories(*splits: CatalogueSplit) -> Relevance:
    """The items of each query over these splits, each item once: the rows x_u of the binary matrix X.

    >>> train = CatalogueSplit("train", 5, CSR.from_lengths([2, 1], item=[4, 1, 4]))
    >>> later = CatalogueSplit("validation", 5, CSR.from_lengths([2, 1], item=[0, 1, 2]))
    >>> histories(train, later).item.tolist()
    [0, 1, 4, 2, 4]
    """
    keys = torch.cat([split.keys() for split in splits]).unique()  # type: ignore[no-untyped-call]
    return Relevance.from_keys(keys, torch.ones(keys.shape[0]), splits[0].num_queries, splits[0].num_items)


def items_of(rows: Relevance, query: Tensor) -> tuple[Tensor, Tensor]:
    """The items of these queries one after another, and where each query's begin, with their total at the end.

    >>> rows = Relevance.from_pairs(query=[0, 0, 2], item=[3, 1, 2])
    >>> items_of(rows, torch.tensor([2, 1, 0]))
    (tensor([2, 1, 3]), tensor([0, 1, 1, 3]))
    """
    found = CSR(rows.indptr, {"item": rows.item}).take(query)
    return found["item"].long(), found.offsets
