"""Synthetic data: exact counts, the same bytes from the same seed, and preferences that can be learned."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from songrank.core.csr import numpy_offsets
from songrank.data import DataError, prepare
from songrank.data.synthetic import Lists, Plan, draw_pairs, make_plan, planted_relevance, planted_scores
from songrank.data.synthetic.numbers import BLOCK, long_tailed_counts, stream
from songrank.data.synthetic.planted_catalogue import Catalogue, draw_tastes
from songrank.data.synthetic.recommendation import draw_users
from songrank.data.synthetic.shapes import SHAPES
from songrank.data.synthetic.synthetic_content import split_bounds
from songrank.data.synthetic.takers import _by_draws, _by_keys
from songrank.metrics import evaluate_catalogue, ndcg

TASKS = ("recommendation", "search", "labelling")
SMALL = {
    "recommendation": {"queries": 1300, "items": 700, "pairs": 30_011},
    "search": {"queries": 1300, "items": 9_001, "features": 7},
    "labelling": {"queries": 1300, "items": 90, "pairs": 4_321, "features": 400, "words": 20},
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return {task: prepare("synthetic", None, folder / task, task=task) for task in TASKS}


def hashes(dataset):
    return {split: dataset.info["splits"][split]["sha256"] for split in dataset}


def all_pairs(dataset):
    parts = [dataset[split].unique_pairs() for split in dataset]
    return tuple(torch.cat(columns) for columns in zip(*parts, strict=True))


# ---- counts


@pytest.mark.parametrize("task", TASKS)
def test_the_counts_are_those_asked_for(tmp_path, task):
    asked = SMALL[task]
    dataset = prepare("synthetic", None, tmp_path / "made", task=task, seed=3, **asked)
    assert (dataset.num_queries, dataset.num_items) == (asked["queries"], asked["items"])
    assert list(dataset) == ["train", "validation", "test"]
    if task == "search":
        assert all(dataset[split].features.shape[1] == 7 for split in dataset)
    else:
        assert dataset.num_pairs == asked["pairs"]
    if task == "labelling":
        assert dataset["test"].num_features == 400


@pytest.mark.parametrize(("task", "shape"), [(task, shape) for task in SHAPES for shape in SHAPES[task]])
def test_the_lengths_of_every_named_shape_sum_to_its_published_count(task, shape):
    plan = make_plan(shape=shape, task=task)
    total = plan.items if task == "search" else plan.pairs
    lengths = long_tailed_counts(total, plan.queries, plan.fewest, plan.most, stream(0, "x"), spread=1.4)
    assert lengths.sum() == total
    assert plan.fewest <= lengths.min()
    assert lengths.max() <= plan.most
    assert split_bounds(plan)[-1] == plan.queries


def test_every_user_and_item_occurs_and_no_pair_occurs_twice(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "made", **SMALL["recommendation"])
    query, item, _ = all_pairs(dataset)
    assert query.unique().numel() == 1300
    assert item.unique().numel() == 700
    assert (query * 700 + item).unique().numel() == query.numel() == 30_011


def test_every_label_and_every_word_occurs(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "made", task="labelling", **SMALL["labelling"])
    _, item, _ = all_pairs(dataset)
    assert item.unique().numel() == 90
    assert torch.cat([dataset[split].features["index"] for split in dataset]).unique().numel() == 400
    rows = dataset["train"].features
    lengths = torch.stack([rows["value"][a:b].norm() for a, b in zip(rows.offsets, rows.offsets[1:], strict=False)])
    torch.testing.assert_close(lengths, torch.ones_like(lengths))


@pytest.mark.parametrize("pairs", [700, 700 * 8])
def test_a_catalogue_that_is_all_but_used_up_works(pairs):
    plan = make_plan(queries=100, items=56, pairs=min(pairs, 100 * 56), holdout=3)
    made = np.concatenate([block.item for block in draw_pairs(plan)])
    counts = np.concatenate([block.counts for block in draw_pairs(plan)])
    key = np.repeat(np.arange(100), counts) * 56 + made
    assert np.unique(key).shape[0] == made.shape[0] == plan.pairs
    assert np.unique(made).shape[0] == 56


def test_the_last_pairs_of_a_user_are_held_out(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "made", queries=40, items=100, pairs=800, holdout=2)
    assert dataset["test"].offsets.diff().unique().tolist() == [2]
    assert dataset["validation"].offsets.diff().unique().tolist() == [2]
    for user in range(40):
        rows = [slice(*dataset[split].offsets[user : user + 2].tolist()) for split in dataset]
        time = torch.cat([dataset[split].time[within] for split, within in zip(dataset, rows, strict=True)])
        assert bool((time.diff() > 0).all())


# ---- determinism


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_decides_every_byte_and_another_gives_others(tmp_path, task):
    made = [
        hashes(prepare("synthetic", None, tmp_path / str(number), task=task, seed=seed, **SMALL[task]))
        for number, seed in enumerate((7, 7, 8))
    ]
    assert made[0] == made[1]
    assert all(made[0][split] != made[2][split] for split in made[0])


def test_a_block_of_users_is_the_same_whether_the_others_are_made_or_not():
    plan = make_plan(**SMALL["recommendation"])
    users = draw_users(plan)
    together = np.concatenate([block.item for block in draw_pairs(plan)])
    start = numpy_offsets(users.counts)
    for block in (2, 0):
        rows = users.rows(block)
        np.testing.assert_array_equal(users.block(block), together[start[rows.start] : start[rows.stop]])


@pytest.mark.parametrize(("first", "last"), [(0, 1300), (0, 1), (BLOCK - 1, BLOCK + 1), (BLOCK, 2 * BLOCK), (5, 1200)])
def test_features_do_not_depend_on_where_a_piece_begins(first, last):
    lists = Lists.draw(make_plan("search", **SMALL["search"]))
    whole, start = np.concatenate(list(lists.features(0, 1300))), numpy_offsets(lists.lengths)
    assert whole.shape == (9_001, 7)
    np.testing.assert_array_equal(np.concatenate(list(lists.features(first, last))), whole[start[first] : start[last]])


def test_both_ways_to_take_items_without_replacement_draw_alike():
    catalogue = Catalogue.draw(items=400, strength=1.0, seed=0, purpose="test")
    chances = catalogue.chances(draw_tastes(1, seed=0), noise=0.1).repeat(BLOCK, 0)
    none, counts, rng = np.zeros(0, np.int64), np.full(BLOCK, 12), stream(0, "test")
    drawn = np.concatenate([_by_draws(catalogue, chances, counts, none, none, rng)[1] for _ in range(8)])
    weight = catalogue.weights(chances[0])
    weighed = np.concatenate([_by_keys(weight, 12, none, rng) for _ in range(8 * BLOCK)])
    assert drawn.shape[0] > 0.95 * weighed.shape[0]
    rates = [np.bincount(items, minlength=400) / (items.shape[0] / 12) for items in (drawn, weighed)]
    error = np.sqrt((rates[0] + rates[1]) / (8 * BLOCK)) + 1e-3
    assert np.abs((rates[0] - rates[1]) / error).max() < 4.5


# ---- what is planted


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


def test_noise_of_one_leaves_nothing_but_popularity():
    scores = planted_scores(make_plan(noise=1.0))(torch.tensor([0, 1, 2]))
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0], scores[2])


def test_labels_of_users_agree_with_their_taste(demo):
    dataset = demo["recommendation"]
    query, item, label = all_pairs(dataset)
    users = draw_users(make_plan())
    liking = users.catalogue.affinity(users.taste)[query.numpy(), users.catalogue.group[item.numpy()]]
    low, high = (liking[(label == stars).numpy()].mean() for stars in (1, 5))
    assert high > low + 0.5
    assert label.unique().tolist() == [1, 2, 3, 4, 5]


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


# ---- distributions


def test_few_items_hold_most_pairs_and_few_users_are_very_active(demo):
    dataset = demo["recommendation"]
    query, item, _ = all_pairs(dataset)
    by_item = torch.bincount(item, minlength=dataset.num_items).sort(descending=True).values
    by_user = torch.bincount(query).double()
    assert float(by_item[: dataset.num_items // 10].sum() / by_item.sum()) > 0.4
    assert float(by_user.mean()) > 1.3 * float(by_user.median())
    assert int(by_user.min()) >= 10


def test_labels_of_documents_come_in_the_shares_of_mslr(demo):
    label = torch.cat([demo["search"][split].label for split in demo["search"]])
    shares = torch.bincount(label.long(), minlength=5) / label.numel()
    torch.testing.assert_close(shares, torch.tensor([0.515, 0.325, 0.134, 0.018, 0.008]), atol=1e-3, rtol=0)


def test_lists_have_the_lengths_of_the_shape(demo):
    lengths = torch.cat([demo["search"][split].lengths for split in demo["search"]])
    assert (int(lengths.sum()), lengths.numel()) == (10_000, 500)
    assert int(lengths.min()) >= 1
    assert int(lengths.max()) <= 100


# ---- what a user may get wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": 10, "items": 5, "pairs": 51}, "pairs is 51; 10 queries and 5 items need 30 to 50"),
        ({"queries": 50, "items": 5000, "pairs": 4999}, "pairs is 4,999; 50 queries and 5,000 items need 5,000 to"),
        ({"task": "search", "pairs": 10}, "pairs is 10; search has no such number: leave it out"),
        ({"task": "search", "holdout": 2}, "holdout is 2; search has no such number"),
        ({"task": "search", "shape": "netflix"}, "shape is 'netflix'; search has demo, mslr-web10k"),
        ({"task": "labelling", "words": 600}, "words is 600; 1,000 features need 1 to 500"),
        ({"queries": 5}, "option queries is 5; expected"),
        ({"noise": 1.5}, "option noise is 1.5"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_in_one_line(tmp_path, options, message):
    with pytest.raises(DataError) as raised:
        prepare("synthetic", None, tmp_path / "made", **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "made").exists()


def test_the_plan_is_kept_with_the_data(demo):
    stored = demo["search"].info["synthetic"]
    assert Plan(**{**stored, "parts": tuple(stored["parts"])}) == make_plan("search")


def test_numpy_and_torch_are_enough_to_make_it():
    code = """
import sys
from songrank.data.synthetic import draw_pairs, draw_texts, make_plan, planted_relevance
next(draw_pairs(make_plan())), next(draw_texts(make_plan("labelling"))), planted_relevance(make_plan("search"))
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"polars", "pydantic", "pandas", "scipy", "safetensors"}.isdisjoint(name.split(".")[0] for name in loaded)
