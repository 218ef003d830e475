"""The moving average of estimates."""

import torch

from songrank import SONG, SlateSampler
from songrank.functional import Surrogate
from tests.losses.fixed_model import task, true_ranks


def test_the_first_visit_sets_u_and_later_visits_move_it_by_gamma():
    relevance, scores = task(3)
    sampler = SlateSampler(relevance, queries_per_batch=1, relevant="all", irrelevant="all")
    slate = sampler.draw(torch.tensor([0]), 0)
    loss = SONG(3, gamma=0.25, dtype=torch.float64)
    loss(scores.unsqueeze(0), slate)
    first = loss.u.read()
    torch.testing.assert_close(first, true_ranks(relevance, scores, Surrogate("squared_hinge", 1.0)))
    loss(-scores.unsqueeze(0), slate)
    second = true_ranks(relevance, -scores, Surrogate("squared_hinge", 1.0))
    torch.testing.assert_close(loss.u.read(), 0.75 * first + 0.25 * second)
