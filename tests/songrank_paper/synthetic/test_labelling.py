"""Synthetic texts with labels."""

import torch

from songrank.data import prepare
from songrank.metrics import evaluate_catalogue
from songrank_paper.synthetic import make_plan, planted_scores
from songrank_paper.synthetic.recommendation import draw_users
from tests.songrank_paper.synthetic.small_sets import SMALL, all_pairs


def test_every_label_and_every_word_occurs(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "made", task="labelling", **SMALL["labelling"])
    _, item, _ = all_pairs(dataset)
    assert item.unique().numel() == 90
    assert torch.cat([dataset[split].features["index"] for split in dataset]).unique().numel() == 400
    rows = dataset["train"].features
    lengths = torch.stack([rows["value"][a:b].norm() for a, b in zip(rows.offsets, rows.offsets[1:], strict=False)])
    torch.testing.assert_close(lengths, torch.ones_like(lengths))


def test_topics_decide_labels(demo):
    dataset = demo["labelling"]
    targets = dataset.relevance("test")
    seen = torch.bincount(dataset["train"].item.long(), minlength=dataset.num_items).double()
    popularity = evaluate_catalogue(lambda query: seen.expand(len(query), -1), targets, metrics="ndcg@5")
    planted = evaluate_catalogue(planted_scores(make_plan("labelling"), "test"), targets, metrics="ndcg@5")
    assert planted.values["ndcg@5"] > 1.4 * popularity.values["ndcg@5"]


def test_texts_with_like_topics_have_like_words(demo):
    split = demo["labelling"]["train"]
    words = split.features.dense(torch.arange(split.num_queries), split.num_features)
    words = words - words.mean(0)
    taste = torch.from_numpy(draw_users(make_plan(queries=2_000, items=1_000)).taste)[: split.num_queries]
    alike, topics = torch.corrcoef(words), torch.corrcoef(taste)
    apart = ~torch.eye(len(words), dtype=torch.bool)
    assert float(torch.corrcoef(torch.stack([alike[apart], topics[apart]]))[0, 1]) > 0.3
