"""Blends against plain numpy in float64."""

import math

import numpy as np
import pytest
import torch

from songrank.models import (
    XMLCNN,
    Blend,
    Ensemble,
    HistoryModel,
    LabelMLP,
    MatrixFactorisation,
    MLPScorer,
    NeuMF,
    SequenceModel,
    UserInput,
)
from songrank.models.blend import standardise

USERS = UserInput(torch.tensor([0, 2, 1]), torch.tensor([[3, 1, 4, 2], [4, -1, -1, -1], [-1, -1, -1, -1]]))


def oracle(scores):
    """Standardised scores of each row, 0 for constant rows."""
    rows = []
    for row in np.asarray(scores, np.float64):
        deviation = math.sqrt(sum((value - row.mean()) ** 2 for value in row) / len(row))
        rows.append([(value - row.mean()) / deviation if deviation else 0.0 for value in row])
    return np.array(rows)


def spread(model):
    """A model whose scores are far apart, as after training."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model.eval()


def members():
    torch.manual_seed(1)
    return [
        spread(MatrixFactorisation(3, 6, dim=4)),
        spread(SequenceModel(6, dim=4, heads=2, blocks=1, length=2)),
        spread(HistoryModel(6, dim=4, length=3)),
        spread(NeuMF(3, 6, dim=4, hidden=[4])),
    ]


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e30])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_scores_are_standardised_in_float32(scale, offset):
    scores = (torch.randn(4, 37, generator=torch.Generator().manual_seed(0)) + offset) * scale
    np.testing.assert_allclose(standardise(scores), oracle(scores.double()), atol=2e-5 * (1 + offset / 5))


@pytest.mark.parametrize("value", [0.0, 0.1, -3.3, 1e30, 1e-30])
@pytest.mark.parametrize("count", [1, 3, 1001])
def test_constant_scores_are_zero(value, count):
    assert torch.equal(standardise(torch.full((2, count), value)), torch.zeros(2, count))
    assert torch.equal(standardise(torch.full((2, count), value, dtype=torch.bfloat16)), torch.zeros(2, count))


def test_lists_are_standardised_without_padding():
    mask = torch.tensor([[True, True, True, False], [True, False, False, False], [False] * 4, [True] * 4])
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(2)).masked_fill(~mask, torch.nan)
    found = standardise(scores, mask)
    for row, own, inside in zip(found, scores, mask, strict=True):
        assert torch.equal(row[~inside], torch.zeros(int((~inside).sum())))
        if inside.any():
            np.testing.assert_allclose(row[inside], oracle(own[inside].double().unsqueeze(0))[0], atol=1e-6)


def test_members_of_ids_and_histories_are_summed_by_weight():
    parts, weights = members(), [0.4, 0.3, 0.2, 0.1]
    blend = Blend(parts, weights).eval()
    assert blend.capabilities.inputs == "users"
    assert blend.history_length == 3
    reads = [USERS.id, USERS.history, USERS.history, USERS.id]
    with torch.no_grad():
        own = [part.score_all(query) for part, query in zip(parts, reads, strict=True)]
        expected = sum(weight * oracle(scores) for weight, scores in zip(weights, own, strict=True))
        every = blend.score_all(USERS)
        np.testing.assert_allclose(every, expected, atol=1e-5)
        for item in (torch.tensor([[5, 0]]), torch.tensor([[1], [2], [5]])):
            assert torch.equal(blend(USERS, item), every.gather(1, item.expand(3, -1)))


def test_new_users_are_scored_by_the_members_that_read_histories():
    parts = members()
    blend = Blend(parts, [0.4, 0.3, 0.2, 0.1]).of_histories()
    with torch.no_grad():
        expected = 0.6 * oracle(parts[1].score_all(USERS.history)) + 0.4 * oracle(parts[2].score_all(USERS.history))
        np.testing.assert_allclose(blend.score_all(USERS.history), expected, atol=1e-5)
    assert blend.of_histories() is blend
    assert Blend(parts[:1], [1.0]).of_histories() is None
    assert Blend(parts[:2], [1.0, 0.0]).of_histories() is None


def test_documents_and_texts():
    torch.manual_seed(0)
    features, mask = torch.randn(3, 5, 4), torch.arange(5) < torch.tensor([[5], [1], [3]])
    scorers = [spread(MLPScorer(4, hidden=[3])), spread(MLPScorer(4, hidden=[]))]
    blend = Blend(scorers, [0.25, 0.75])
    assert not blend.capabilities.pointwise
    with torch.no_grad():
        found, own = blend(features, mask), [scorer(features, mask) for scorer in scorers]
    for row in range(3):
        inside = mask[row]
        expected = sum(w * oracle(s[row][inside].unsqueeze(0))[0] for w, s in zip((0.25, 0.75), own, strict=True))
        np.testing.assert_allclose(found[row][inside], expected, atol=1e-5)
        assert not found[row][~inside].any()
    labels = Blend([spread(LabelMLP(4, 7, hidden=[3])), spread(LabelMLP(4, 7, hidden=[]))], [0.5, 0.5])
    with torch.no_grad():
        own = [oracle(part.score_all(features[0])) for part in labels.members]
        np.testing.assert_allclose(labels.score_all(features[0]), (own[0] + own[1]) / 2, atol=1e-5)


def test_an_ensemble_may_be_a_member():
    parts = members()
    pair = Ensemble([parts[0], spread(MatrixFactorisation(3, 6, dim=4))])
    blend = Blend([pair, parts[2]], [0.5, 0.5])
    with torch.no_grad():
        expected = 0.5 * oracle(pair.score_all(USERS.id)) + 0.5 * oracle(parts[2].score_all(USERS.history))
        np.testing.assert_allclose(blend.score_all(USERS), expected, atol=1e-5)


def test_a_member_without_weight_is_not_asked():
    blend = Blend(members()[:2], [1.0, 0.0])
    blend.members[1].score_all = None
    assert blend.score_all(USERS).isfinite().all()


@pytest.mark.parametrize(
    "weights", [[0.5], [0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], ["0.5", 0.5], [True, 0.0], [0.3, 0.3, 0.4]]
)
def test_invalid_weights_are_rejected(weights):
    with pytest.raises(ValueError, match="expected one number of at least 0 per member, 2 in all, with the sum 1"):
        Blend(members()[:2], weights)


def test_members_must_have_one_input():
    with pytest.raises(ValueError, match="members is empty"):
        Blend([], [])
    texts = [LabelMLP(4, 7), XMLCNN(30, 7)]
    with pytest.raises(ValueError, match="of models with inputs features, tokens'; expected models of the same task"):
        Blend(texts, [0.5, 0.5])
    with pytest.raises(ValueError, match="expected models of the same task and input"):
        Blend([Blend(members()[:2], [0.5, 0.5]), members()[0]], [0.5, 0.5])
    with pytest.raises(NotImplementedError, match="a blend cannot be trained"):
        Blend(members()[:1], [1.0]).reset_head()
