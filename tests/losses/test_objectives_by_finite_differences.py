"""With full lists and γ = 1 the losses are the paper's smooth objectives: their gradients are finite differences."""

import math

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE
from songrank.functional import ThresholdProblem, smooth_threshold
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from tests.oracles.memory_losses import outer, rows_of, selector, surrogate
from tests.slates import full_slate


def numeric_gradient(objective, scores, step=1e-5):
    gradient = torch.zeros_like(scores)
    for at in range(scores.numel()):
        ends = []
        for sign in (1, -1):
            moved = scores.clone()
            moved.view(-1)[at] += sign * step
            ends.append(objective(moved))
        gradient.view(-1)[at] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def smooth_objective(slate, offset, name="squared_hinge", margin=1.0, select=None, temperature=1.0):
    """F(w), or F_K(w) with ``select(row) -> λ̂``, by loops over full lists."""

    def objective(scores):
        total = 0.0
        for row in rows_of(scores, slate):
            lam = None if select is None else select(row)
            for i in row.relevant:
                terms = [surrogate(name, row.scores[j] - row.scores[i], margin, temperature)[0] for j in row.present]
                value, _ = outer(sum(terms) / row.size, row.labels[i], row, offset)
                psi = 1.0 if lam is None else selector("sigmoid", row.scores[i] - lam, 2.0)[0]
                total += row.share * psi * value
        return total

    return objective


def draw(slate, seed=3):
    return torch.randn(slate.label.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("offset", [0.0, 16.0])
@pytest.mark.parametrize("name", ["squared_hinge", "smooth_hinge", "logistic", "sigmoid"])
def test_songs_gradient_is_that_of_the_smooth_ndcg(name, offset):
    slate = full_slate(1)
    scores = draw(slate).requires_grad_()
    value = SONG(64, gamma=1.0, surrogate=name, rank_offset=offset, dtype=torch.float64)(scores, slate)
    value.backward()
    objective = smooth_objective(slate, offset, name)
    assert float(value.detach()) == pytest.approx(objective(scores.detach()), rel=1e-12)
    torch.testing.assert_close(scores.grad, numeric_gradient(objective, scores.detach()), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("offset", [0.0, 16.0])
@pytest.mark.parametrize("k", [1, 3])
def test_theoretical_ksongs_gradient_is_that_of_the_smooth_top_k_ndcg(k, offset):
    slate = full_slate(2, k=k)
    scores = draw(slate).requires_grad_()
    problem = ThresholdProblem(k=k, epsilon=0.5, tau1=0.3, tau2=0.01)

    def solve(values, present, size):
        weights = present.double() / size
        return smooth_threshold(values, problem, weights=weights, list_size=torch.tensor(float(size)))

    def of_row(row):
        values = torch.tensor(row.scores, dtype=torch.float64)
        present = torch.zeros(len(row.scores), dtype=torch.bool)
        present[row.present] = True
        return float(solve(values, present, row.size))

    own = {"threshold": ThresholdOptions(tau1=0.3, tau2=0.01), "form": PaperForm(centre="zero")}
    loss = KSONG(64, 8, k, gamma=1.0, rank_offset=offset, dtype=torch.float64, **own)
    mask = slate.mask
    weights = mask.double() / slate.list_size.double().unsqueeze(1)
    best = torch.stack([solve(scores[b].detach(), mask[b], int(slate.list_size[b])) for b in range(3)])
    loss.threshold.write(slate.query, best)
    loss.curvature.write(slate.query, problem.curvature(best, scores.detach(), weights))
    value = loss(scores, slate)
    value.backward()
    objective = smooth_objective(slate, offset, select=of_row)
    assert float(value.detach()) == pytest.approx(objective(scores.detach()), rel=1e-10)
    torch.testing.assert_close(scores.grad, numeric_gradient(objective, scores.detach()), rtol=1e-5, atol=1e-7)


def test_solcs_gradient_is_that_of_the_listwise_cross_entropy():
    slate = full_slate(4)
    scores = draw(slate).requires_grad_()
    value = ListwiseCE(64, gamma=1.0, dtype=torch.float64)(scores, slate)
    value.backward()

    def objective(values):
        total = 0.0
        for row in rows_of(values, slate):
            for i in row.relevant:
                mass = sum(math.exp(row.scores[j] - row.scores[i]) for j in row.present)
                total += row.share * math.log(mass) / len(row.relevant)
        return total

    assert float(value.detach()) == pytest.approx(objective(scores.detach()), rel=1e-12)
    torch.testing.assert_close(scores.grad, numeric_gradient(objective, scores.detach()), rtol=1e-6, atol=1e-8)


def test_the_readable_objective_is_the_smooth_ndcg_without_offset():
    slate = full_slate(5)
    scores = draw(slate)
    loss = SONG(64, gamma=1.0, rank_offset=64.0, dtype=torch.float64)
    assert float(loss.objective(scores, slate)) == pytest.approx(-smooth_objective(slate, 0.0)(scores), rel=1e-12)
