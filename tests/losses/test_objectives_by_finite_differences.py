"""With full lists and γ = 1 the losses are the paper's smooth objectives: their gradients are finite differences."""

import math

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE
from songrank.functional import ThresholdProblem, smooth_threshold
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from tests.losses.smooth_objective import draw, numeric_gradient, smooth_objective
from tests.oracles.memory_losses import rows_of
from tests.slates import full_slate


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
