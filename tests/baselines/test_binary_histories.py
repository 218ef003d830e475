"""Histories of a baseline."""

import torch

from songrank.baselines import histories
from songrank.core.csr import CSR
from songrank.data import CatalogueSplit


def test_histories_are_sets_of_items_over_all_splits():
    generator = torch.Generator().manual_seed(0)
    lengths, splits, wanted = [[3, 0, 5], [1, 2, 0]], [], [set(), set(), set()]
    for one in lengths:
        item = torch.randint(0, 6, (sum(one),), generator=generator)
        splits.append(CatalogueSplit("train", 6, CSR.from_lengths(one, item=item)))
        for found, part in zip(wanted, item.split(one), strict=True):
            found.update(part.tolist())
    rows = histories(*splits)
    found = [rows["item"][a:b].tolist() for a, b in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
    assert found == [sorted(row) for row in wanted]
