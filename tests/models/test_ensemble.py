"""Ensembles of models."""

import pytest
import torch

from songrank.models import Ensemble, HistoryModel, MatrixFactorisation, NeuMF, SequenceModel


def test_scores_are_the_mean_of_the_members_however_they_are_asked_for():
    members = [MatrixFactorisation(3, 5, dim=4) for _ in range(3)]
    both, query, item = Ensemble(members), torch.tensor([0, 2]), torch.tensor([[1, 4]])
    torch.testing.assert_close(both.score_all(query), torch.stack([one.score_all(query) for one in members]).mean(0))
    torch.testing.assert_close(both(query, item), torch.stack([one(query, item) for one in members]).mean(0))
    assert both.num_items == 5


def test_it_declares_what_its_members_declare():
    members = [HistoryModel(5, dim=4, length=7) for _ in range(2)]
    assert Ensemble(members).capabilities.query == members[0].capabilities.query


def test_members_are_asked_as_they_are():
    query, item = torch.tensor([1, 0]), torch.tensor([[0, 3], [2, 1]])
    members = [NeuMF(2, 5, dim=4, hidden=[4]) for _ in range(3)]
    both = Ensemble(members).eval()
    torch.testing.assert_close(both(query, item), sum(member(query, item) for member in members) / 3)
    assert both.num_items == 5
    assert both.history_length is None
    assert Ensemble([SequenceModel(5, dim=4, heads=1, length=7)]).history_length == 7
    assert Ensemble([torch.nn.Linear(2, 1)]).history_length is None
    with pytest.raises(ValueError, match="members is empty; expected at least one model"):
        Ensemble([])
