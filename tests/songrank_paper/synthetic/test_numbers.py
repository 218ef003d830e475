"""Random numbers of synthetic data sets."""

import torch

from tests.songrank_paper.synthetic.small_sets import all_pairs


def test_few_items_hold_most_pairs_and_few_users_are_very_active(demo):
    dataset = demo["recommendation"]
    query, item, _ = all_pairs(dataset)
    by_item = torch.bincount(item, minlength=dataset.num_items).sort(descending=True).values
    by_user = torch.bincount(query).double()
    assert float(by_item[: dataset.num_items // 10].sum() / by_item.sum()) > 0.4
    assert float(by_user.mean()) > 1.3 * float(by_user.median())
    assert int(by_user.min()) >= 10
