"""What a model is fed with: the right rows for the right queries, in all three tasks."""

import pytest
import torch

from songrank import SlateSampler
from songrank.data import CatalogueSplit, open_dataset, prepare
from songrank.metrics import evaluate_lists
from songrank.models.document_lists import list_groups
from songrank.training.trainer.batch_adapters import DocumentAdapter
from songrank.training.trainer.history_adapters import make_adapter


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("feeds")
    prepare("synthetic", None, place / "recommendation", queries=60, items=40, pairs=900)
    prepare(
        "synthetic", None, place / "labelling", task="labelling", queries=60, items=20, pairs=200, features=50, words=8
    )
    prepare("synthetic", None, place / "search", task="search", queries=40, items=400, features=6)
    return place


class Recorder:
    """A model that remembers what it was given, and scores by a rule."""

    def __init__(self, rule):
        self.rule, self.seen = rule, []

    def __call__(self, *inputs):
        self.seen.append(inputs)
        return self.rule(*inputs)


def test_search_documents_meet_their_own_labels(folder):
    dataset = open_dataset(folder / "search")
    adapter = make_adapter(dataset)
    model = Recorder(lambda features, mask: features.sum(-1))
    train = dataset["train"]
    for slate in SlateSampler(adapter.relevance, queries_per_batch=7, length=5):
        scores = adapter.scores(model, slate)
        for row, query in enumerate(slate.query.tolist()):
            start, end = train.offsets[query : query + 2].tolist()
            for column in slate.mask[row].nonzero().flatten().tolist():
                document = int(slate.item[row, column])
                assert start <= document < end
                assert slate.label[row, column] == train.label[document]
                torch.testing.assert_close(scores[row, column], train.features[document].sum())


@pytest.mark.parametrize("budget", [1, 60, 1 << 24])
def test_search_evaluation_ranks_every_list_whole_whatever_the_batch(folder, budget, monkeypatch):
    monkeypatch.setattr("songrank.models.document_lists._VALUES", budget)
    dataset = open_dataset(folder / "search")
    adapter = DocumentAdapter(dataset, "cpu")
    found = adapter.evaluate(
        Recorder(lambda features, mask: features.sum(-1) * mask), "test", metrics=["ndcg@10", "mrr"]
    )
    part = dataset["test"]
    expected = evaluate_lists(part.features.sum(-1), part.label, lengths=part.lengths, metrics=["ndcg@10", "mrr"])
    assert found.values == pytest.approx(expected.values, abs=1e-7)
    assert found.num_queries == part.num_queries


def test_groups_cover_all_lists_in_order():
    assert list(list_groups([], 3)) == []
    assert list(list_groups([5, 1, 9], 1 << 30)) == [(0, 1), (1, 2), (2, 3)]
    assert list(list_groups([5, 1, 9], 1)) == [(0, 3)]


def test_labelling_feeds_the_features_of_the_split_that_is_asked_for(folder):
    dataset = open_dataset(folder / "labelling")
    adapter = make_adapter(dataset)
    for split in dataset:
        part = dataset[split]
        assert isinstance(part, CatalogueSplit)
        query = torch.tensor([part.num_queries - 1, 0])
        torch.testing.assert_close(adapter.queries(split, query), part.features.dense(query, part.num_features))
    slate = next(iter(SlateSampler(adapter.relevance, queries_per_batch=4, relevant=2, irrelevant=3)))
    model = Recorder(lambda query, item: torch.zeros(item.shape))
    adapter.scores(model, slate)
    torch.testing.assert_close(model.seen[0][0], dataset["train"].features.dense(slate.query, part.num_features))


def test_recommendation_is_evaluated_among_items_not_seen_before(folder):
    dataset = open_dataset(folder / "recommendation")
    adapter = make_adapter(dataset)
    truth = torch.zeros(dataset.num_queries, dataset.num_items)
    for split, value in (("train", 3.0), ("validation", 2.0), ("test", 1.0)):
        query, item, _ = dataset[split].unique_pairs()
        truth[query, item] = value

    class Oracle:
        def score_all(self, query):
            return truth[query]

    assert adapter.evaluate(Oracle(), "test", metrics="ndcg@10").values["ndcg@10"] == 1.0
    assert adapter.evaluate(Oracle(), "validation", metrics="ndcg@10").values["ndcg@10"] == 1.0
