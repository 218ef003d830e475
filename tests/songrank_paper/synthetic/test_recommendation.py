"""Synthetic interaction logs."""

import numpy as np
import torch

from songrank.core.csr import numpy_offsets
from songrank.data import prepare
from songrank.metrics import evaluate_catalogue
from songrank_paper.synthetic import draw_pairs, make_plan, planted_scores
from songrank_paper.synthetic.recommendation import draw_users
from tests.songrank_paper.synthetic.small_sets import SMALL, all_pairs


def test_every_user_and_item_occurs_and_no_pair_occurs_twice(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "made", **SMALL["recommendation"])
    query, item, _ = all_pairs(dataset)
    assert query.unique().numel() == 1300
    assert item.unique().numel() == 700
    assert (query * 700 + item).unique().numel() == query.numel() == 30_011


def test_the_last_pairs_of_a_user_are_held_out(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "made", queries=40, items=100, pairs=800, holdout=2)
    assert dataset["test"].offsets.diff().unique().tolist() == [2]
    assert dataset["validation"].offsets.diff().unique().tolist() == [2]
    for user in range(40):
        rows = [slice(*dataset[split].offsets[user : user + 2].tolist()) for split in dataset]
        time = torch.cat([dataset[split].time[within] for split, within in zip(dataset, rows, strict=True)])
        assert bool((time.diff() > 0).all())


def test_a_block_of_users_is_the_same_whether_the_others_are_made_or_not():
    plan = make_plan(**SMALL["recommendation"])
    users = draw_users(plan)
    together = np.concatenate([block.item for block in draw_pairs(plan)])
    start = numpy_offsets(users.counts)
    for block in (2, 0):
        rows = users.rows(block)
        np.testing.assert_array_equal(users.block(block), together[start[rows.start] : start[rows.stop]])


def test_planted_preferences_beat_popularity(demo):
    dataset = demo["recommendation"]
    targets = dataset.relevance("test")
    seen = torch.bincount(dataset["train"].item.long(), minlength=dataset.num_items).double()
    popularity = evaluate_catalogue(lambda query: seen.expand(len(query), -1), targets, metrics="ndcg@10")
    planted = evaluate_catalogue(planted_scores(make_plan()), targets, metrics="ndcg@10")
    assert planted.values["ndcg@10"] > 1.5 * popularity.values["ndcg@10"] > 0.1


def test_preferences_can_be_learned_from_the_training_pairs(demo):
    dataset = demo["recommendation"]
    query, item, _ = dataset["train"].unique_pairs()
    taken = torch.zeros(dataset.num_queries, dataset.num_items)
    taken[query, item] = 1
    popularity = taken.sum(0).clamp(min=1)
    torch.manual_seed(0)
    left, size, right = torch.svd_lowrank(taken / popularity**0.5 / taken.sum(1, keepdim=True) ** 0.5, 16, niter=6)
    scores = ((left * size) @ right.T * popularity**0.5).double()
    targets = dataset.relevance("test")
    learned = evaluate_catalogue(lambda rows: scores[rows], targets, metrics="ndcg@10")
    baseline = evaluate_catalogue(lambda rows: popularity.double().expand(len(rows), -1), targets, metrics="ndcg@10")
    assert learned.values["ndcg@10"] > 1.15 * baseline.values["ndcg@10"]


def test_labels_of_users_agree_with_their_taste(demo):
    dataset = demo["recommendation"]
    query, item, label = all_pairs(dataset)
    users = draw_users(make_plan())
    liking = users.catalogue.affinity(users.taste)[query.numpy(), users.catalogue.group[item.numpy()]]
    low, high = (liking[(label == stars).numpy()].mean() for stars in (1, 5))
    assert high > low + 0.5
    assert label.unique().tolist() == [1, 2, 3, 4, 5]
