"""Interaction histories as binary rows, the input of baseline models."""

from collections.abc import Callable

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.pairs import table_keys, unpack
from songrank.data import CatalogueSplit

Scores = Callable[[CSR, Tensor], Tensor]
"""A function from the histories of all users and users [b] to scores [b, num_items]."""


def histories(*splits: CatalogueSplit) -> CSR:
    """The items of each query over these splits, each item once: the rows x_u of the binary matrix X.

    >>> train = CatalogueSplit("train", 5, CSR.from_lengths([2, 1], item=[4, 1, 4]))
    >>> later = CatalogueSplit("validation", 5, CSR.from_lengths([2, 1], item=[0, 1, 2]))
    >>> histories(train, later)["item"].tolist()
    [0, 1, 4, 2, 4]
    """
    every = torch.cat([table_keys(split.pairs, split.num_items) for split in splits])
    query, item = unpack(every.unique(), splits[0].num_items)  # type: ignore[no-untyped-call]
    return CSR.from_rows(query, splits[0].num_queries, item=item)
