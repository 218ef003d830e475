"""Ids: numbers of queries and items and their original names."""

import numpy as np
import pytest
import torch

from songrank.data import Ids


def test_ids_find_numbers_and_texts():
    numbers = Ids.of([30, 10, 20])
    assert numbers.find([10, 30.0, "20", "x", None, 15, 2**70]).tolist() == [0, 2, 1, -1, -1, -1, -1]
    assert numbers[[2, 0]] == [30, 10]
    assert numbers[-1] == 30
    texts = Ids.of(["é", "b", "b"])
    assert texts.find(["é", "c"]).tolist() == [1, -1]
    assert texts[torch.tensor([1, 0])] == ["é", "b"]
    assert list(Ids.of(np.zeros(0, np.int64))) == []
    with pytest.raises(IndexError):
        texts[2]
    assert Ids.of([-(2**63), 5]).find(["zz", None, 2.5, -(2**63)]).tolist() == [-1, -1, -1, 0]
    assert list(Ids.count(3)) == [0, 1, 2]


def test_the_repr_is_one_line_with_the_first_ids():
    assert repr(Ids.of(["b", "a", "c", "d"])) == "Ids(4: 'a', 'b', 'c', …)"
    assert repr(Ids.of([7])) == "Ids(1: 7)"
    assert repr(Ids.of(np.zeros(0, np.int64))) == "Ids(0)"
