import numpy as np
import pytest
import torch
from sklearn.metrics import dcg_score, ndcg_score

from songrank.metrics import dcg, ndcg

CUTS = (None, 1, 3, 10, 40)


def lists(tied: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 5, (30, 25)).astype(float)
    scores = (
        rng.integers(0, 6, (30, 25)).astype(float) if tied else rng.permuted(np.tile(np.arange(25.0), (30, 1)), axis=1)
    )
    return scores, labels


@pytest.mark.parametrize("k", CUTS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("gain", ["linear", "exp2"])
def test_averaged_ties_agree_with_scikit_learn(k, tied, gain):
    scores, labels = lists(tied)
    truth = labels if gain == "linear" else 2.0**labels - 1.0
    ours = [fn(torch.tensor(scores), torch.tensor(labels), k=k, ties="average", gain=gain) for fn in (dcg, ndcg)]
    theirs = [fn(truth, scores, k=k) for fn in (dcg_score, ndcg_score)]
    assert [float(value) for value in ours] == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("ties", ["pessimistic", "stable"])
@pytest.mark.parametrize("k", CUTS)
def test_without_ties_every_policy_agrees_with_scikit_learn(k, ties):
    scores, labels = lists(tied=False)
    ours = ndcg(torch.tensor(scores), torch.tensor(labels), k=k, ties=ties, gain="linear")
    assert float(ours) == pytest.approx(ndcg_score(labels, scores, k=k, ignore_ties=True), rel=1e-12)


def test_pessimistic_ties_never_beat_averaged_ties():
    scores, labels = (torch.tensor(values) for values in lists(tied=True))
    worst, mean = (ndcg(scores, labels, ties=ties, reduction="none") for ties in ("pessimistic", "average"))
    assert (worst < mean).all()
