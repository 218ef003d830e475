"""Synthetic lists of documents."""

import numpy as np
import pytest
import torch

from songrank.core.csr import numpy_offsets
from songrank.data import prepare
from songrank.metrics import ndcg
from songrank_paper.synthetic import Lists, make_plan, planted_relevance
from songrank_paper.synthetic.numbers import BLOCK
from tests.songrank_paper.synthetic.small_sets import SMALL


@pytest.mark.parametrize(("first", "last"), [(0, 1300), (0, 1), (BLOCK - 1, BLOCK + 1), (BLOCK, 2 * BLOCK), (5, 1200)])
def test_features_do_not_depend_on_where_a_piece_begins(first, last):
    lists = Lists.draw(make_plan("search", **SMALL["search"]))
    whole, start = np.concatenate(list(lists.features(0, 1300))), numpy_offsets(lists.lengths)
    assert whole.shape == (9_001, 7)
    np.testing.assert_array_equal(np.concatenate(list(lists.features(first, last))), whole[start[first] : start[last]])


def test_the_planted_function_ranks_documents_well(demo):
    dataset, plan = demo["search"], make_plan("search")
    for split in dataset:
        part, relevance = dataset[split], planted_relevance(plan, split)
        assert relevance.shape == part.label.shape
        planted = ndcg(relevance, part.label, k=10, lengths=part.lengths)
        chance = ndcg(
            torch.rand(relevance.shape, generator=torch.manual_seed(0)), part.label, k=10, lengths=part.lengths
        )
        assert float(planted) > 0.85
        assert float(chance) < 0.6


def test_without_noise_and_within_a_query_the_planted_function_is_the_order(tmp_path):
    plan = make_plan("search", noise=0.0)
    dataset = prepare("synthetic", None, tmp_path / "made", task="search", noise=0.0)
    test = dataset["test"]
    value = ndcg(planted_relevance(plan, "test"), test.label, lengths=test.lengths)
    assert float(value) == pytest.approx(1.0, abs=1e-6)


def test_labels_of_documents_come_in_the_shares_of_mslr(demo):
    label = torch.cat([demo["search"][split].label for split in demo["search"]])
    shares = torch.bincount(label.long(), minlength=5) / label.numel()
    torch.testing.assert_close(shares, torch.tensor([0.515, 0.325, 0.134, 0.018, 0.008]), atol=1e-3, rtol=0)


def test_lists_have_the_lengths_of_the_shape(demo):
    lengths = torch.cat([demo["search"][split].lengths for split in demo["search"]])
    assert (int(lengths.sum()), lengths.numel()) == (10_000, 500)
    assert int(lengths.min()) >= 1
    assert int(lengths.max()) <= 100
