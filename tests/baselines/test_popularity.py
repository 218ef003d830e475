"""The popularity baseline."""

from collections import Counter

import torch

from songrank.baselines.popularity import Popularity
from songrank.core.csr import CSR
from songrank.data import CatalogueSplit


def test_every_query_gets_the_counts_of_training():
    item = torch.randint(0, 8, (50,), generator=torch.Generator().manual_seed(0))
    train = CatalogueSplit("train", 9, CSR.from_lengths([20, 30], item=item))
    scores = Popularity(train).fit()(None, torch.tensor([1, 0, 1]))
    counts = Counter(item.tolist())
    assert scores.tolist() == [[float(counts[at]) for at in range(9)]] * 3
