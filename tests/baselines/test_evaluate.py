"""Baseline models: choice of options, interaction histories, and rejected input."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from songrank.baselines import BASELINES, Ease, measure
from songrank.baselines.base import Baseline
from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.metrics import evaluate_catalogue
from songrank.models.ease import BESIDE
from tests.baselines.small_log import dense, mean_ndcg, prepared


class Echo(Baseline):
    """Scores the items of a history by 1 and all others by 0: it wins if it is told what it has to find."""

    grid = ({"seen": 0.0}, {"seen": 1.0})
    deterministic = True
    asked: ClassVar[list] = []

    def __init__(self, train):
        self.train = train

    def fit(self, seen):
        def scores(rows, query):
            found = torch.zeros(query.shape[0], self.train.num_items)
            for row, one in enumerate(query.tolist()):
                found[row, rows["item"][rows.offsets[one] : rows.offsets[one + 1]]] = seen
            Echo.asked.append(rows)
            return found

        return scores


@pytest.fixture
def echo(monkeypatch):
    monkeypatch.setitem(BASELINES, "echo", Echo)
    monkeypatch.setattr(Echo, "asked", [])


def seen_by(rows, dataset):
    matrix = np.zeros((dataset.num_queries, dataset.num_items))
    matrix[rows.row_of_entries().numpy(), rows["item"].numpy()] = 1.0
    return matrix


def ease_scores(train, history, regularisation):
    inverse = np.linalg.inv(train.T @ train + regularisation * np.eye(train.shape[1]))
    return history @ (np.eye(train.shape[1]) - inverse / np.diag(inverse))


def test_options_are_chosen_on_validation_where_test_would_choose_others(tmp_path):
    dataset = prepared(tmp_path, seed=5)
    train, both = dense(dataset, "train"), dense(dataset, "train", "validation")
    on_validation, on_test = {}, {}
    strengths = [options["regularisation"] for options in Ease.grid]
    for strength in strengths:
        found = ease_scores(train, train, strength)
        on_validation[strength] = mean_ndcg(found, dense(dataset, "validation"), train, k=5)
        on_test[strength] = mean_ndcg(ease_scores(train, both, strength), dense(dataset, "test"), both, k=5)
        if len(on_validation) == len(Ease.grid):  # two values beside the best one are tried last
            best = max(strengths, key=on_validation.__getitem__)
            strengths += [float(f"{best * factor:.2g}") for factor in (1 / BESIDE, BESIDE)]
    best = max(strengths, key=on_validation.__getitem__)
    assert on_test[best] < max(on_test.values())

    found = measure("ease", dataset, select="ndcg@5", metrics="ndcg@5")
    assert found.options == {"regularisation": best}
    assert found.validation == pytest.approx(on_validation[best], abs=1e-9)
    assert found.evaluation.values["ndcg@5"] == pytest.approx(on_test[best], abs=1e-9)


def test_given_options_are_not_chosen(tmp_path):
    dataset = prepared(tmp_path, seed=5)
    train, both = dense(dataset, "train"), dense(dataset, "train", "validation")
    found = measure("ease", dataset, metrics="ndcg@5", options={"regularisation": 7.0})
    assert (found.options, found.validation) == ({"regularisation": 7.0}, None)
    expected = mean_ndcg(ease_scores(train, both, 7.0), dense(dataset, "test"), both, k=5)
    assert found.evaluation.values["ndcg@5"] == pytest.approx(expected, abs=1e-9)


def test_histories_are_all_that_came_before_and_never_what_is_to_be_found(echo, tmp_path):
    dataset = prepared(tmp_path)
    found = measure("echo", dataset, metrics="hit_rate@1")
    assert found.inputs == ("train", "validation")
    assert found.evaluation.values == {"hit_rate@1": 0.0}
    *choosing, last = Echo.asked
    for rows in choosing:
        assert (seen_by(rows, dataset) == dense(dataset, "train")).all()
    assert (seen_by(last, dataset) == dense(dataset, "train", "validation")).all()
    assert (seen_by(last, dataset) * dense(dataset, "test")).sum() == 0

    Echo.asked.clear()
    assert measure("echo", dataset, "validation", metrics="hit_rate@1").inputs == ("train",)
    for rows in Echo.asked:
        assert (seen_by(rows, dataset) == dense(dataset, "train")).all()


def test_popularity_ranks_by_the_number_of_interactions_in_training(tmp_path):
    dataset = prepared(tmp_path)
    counts = dense(dataset, "train").sum(0)
    found = measure("popularity", dataset, metrics=["ndcg@5"])
    seen = dense(dataset, "train", "validation")
    expected = mean_ndcg(np.tile(counts, (dataset.num_queries, 1)), dense(dataset, "test"), seen, k=5)
    assert found.evaluation.values["ndcg@5"] == pytest.approx(expected)
    assert (found.options, found.validation) == ({}, None)


def test_policies_and_sampled_candidates_are_those_that_were_asked_for(tmp_path):
    dataset = prepared(tmp_path)
    counts = torch.tensor(dense(dataset, "train").sum(0))
    policies = {"ties": "average", "empty": "zero", "gain": "linear"}
    found = measure("popularity", dataset, metrics="ndcg@3", **policies).evaluation
    expected = evaluate_catalogue(
        lambda query: counts.expand(query.shape[0], -1), dataset.relevance("test"), metrics="ndcg@3", **policies
    )
    assert torch.equal(found.per_query["ndcg@3"], expected.per_query["ndcg@3"])
    few = measure("popularity", dataset, metrics="mrr", candidates=4).evaluation
    assert few.candidates == 4
    assert few.values["mrr"] > measure("popularity", dataset, metrics="mrr").evaluation.values["mrr"]


def test_progress_is_told_of_each_option_and_of_the_queries(tmp_path):
    told = []
    measure("ease", prepared(tmp_path), progress=lambda *words: told.append(words))
    assert [words[1:] for words in told if words[0] == "ease: choosing options on validation"] == [
        (min(i, 8), 8) for i in range(9)
    ]
    assert told[-1] == ("ease: test", 60, 60)


def test_other_tasks_and_splits_that_are_not_there_are_refused_in_one_line(tmp_path):
    search = prepare("synthetic", None, tmp_path / "search", task="search", queries=20)
    with pytest.raises(UserError, match="search: is a search data set; baseline models are for recommendation"):
        measure("popularity", search)
    dataset = prepared(tmp_path)
    with pytest.raises(UserError, match="has no train split; it has validation, test"):
        measure("popularity", dataset, "train")
    with pytest.raises(UserError, match="metric is 'nope'; expected one of"):
        measure("ease", dataset, select="nope")
    with pytest.raises(UserError, match="baseline model is 'easy'; expected one of ease, ials, popularity"):
        measure("easy", dataset)


def test_without_validation_there_is_nothing_to_choose_on(tmp_path):
    dataset = prepared(tmp_path, split="random", validation=0)
    with pytest.raises(UserError, match="data: has no validation split; ease needs it to choose its options"):
        measure("ease", dataset)
    assert measure("popularity", dataset).inputs == ("train",)
