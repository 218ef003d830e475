"""Losses of TensorFlow Ranking against loops, and against values of its own documentation and tests."""

import math
from collections import Counter

import pytest
import torch

from songrank import Slate
from songrank.losses import LOSSES
from songrank_paper.peer_losses import LISTNET, RandomTiesListMLE, random_ties_listmle_loss

SCORES = [[0.3, -1.2, 2.0, 0.7, 0.1], [1.0, 0.4, -0.6, 3.0, -2.0]]
LABELS = [[0.0, 2.0, 1.0, 2.0, 0.0], [1.0, 0.0, 0.0, 4.0, 0.0]]
MASK = [[True] * 5, [True, True, True, True, False]]


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def listmle_by_loops(scores, order):
    """−ln of the probability that items are drawn in this order, each with probability ∝ e^s among those left."""
    value, left = 0.0, list(order)
    for item in order:
        value -= scores[item] - math.log(sum(math.exp(scores[j]) for j in left))
        left.remove(item)
    return value


def slate(labels):
    return Slate.from_batch(double(labels), query=torch.arange(len(labels)))


def test_ties_follow_the_given_order_and_padding_has_no_share():
    tickets = [[0.9, 0.8, 0.1, 0.2, 0.3], [0.5, 0.6, 0.1, 0.2, 0.0]]
    found = random_ties_listmle_loss(
        double(SCORES), double(LABELS), order=double(tickets), mask=torch.tensor(MASK), reduction="none"
    )
    want = [listmle_by_loops(SCORES[0], [3, 1, 2, 4, 0]), listmle_by_loops(SCORES[1], [3, 0, 2, 1])]
    torch.testing.assert_close(found, double(want), rtol=1e-12, atol=0)


def test_the_gradient_is_that_of_the_loops():
    scores = double(SCORES).requires_grad_()
    order = torch.rand(2, 5, generator=torch.Generator().manual_seed(0))
    random_ties_listmle_loss(scores, double(LABELS), order=order, mask=torch.tensor(MASK), reduction="sum").backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[1, 4] == 0.0
    step = 1e-6
    for row, column in ((0, 1), (0, 2), (1, 0)):
        ends = []
        for sign in (-1, 1):
            moved = double(SCORES)
            moved[row, column] += sign * step
            found = random_ties_listmle_loss(
                moved, double(LABELS), order=order, mask=torch.tensor(MASK), reduction="sum"
            )
            ends.append(float(found))
        assert scores.grad[row, column].item() == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6)


def test_labels_without_ties_have_the_value_of_tensorflow_rankings_own_test():
    ln = math.log  # losses_test.py: test_list_mle_loss
    scores, labels = double([[0.0, ln(3), ln(2)], [0.0, ln(2), ln(3)]]), double([[0.0, 2.0, 1.0], [1.0, 0.0, 2.0]])
    want = -((ln(3 / 6) + ln(2 / 3) + ln(1)) + (ln(3 / 6) + ln(1 / 3) + ln(2 / 2))) / 2
    order = torch.rand(2, 3, generator=torch.Generator().manual_seed(3))
    assert random_ties_listmle_loss(scores, labels, order=order).item() == pytest.approx(want, rel=1e-12)


def test_every_order_of_ties_is_drawn_about_equally_often():
    loss, scores = RandomTiesListMLE(seed=5), double([[0.1, 0.9, 2.5, -0.4]])
    ways = {round(listmle_by_loops(scores[0].tolist(), [3, *rest]), 9): rest for rest in ([0, 1, 2], [0, 2, 1])}
    ways |= {round(listmle_by_loops(scores[0].tolist(), [3, *rest]), 9): rest for rest in ([1, 0, 2], [1, 2, 0])}
    ways |= {round(listmle_by_loops(scores[0].tolist(), [3, *rest]), 9): rest for rest in ([2, 0, 1], [2, 1, 0])}
    assert len(ways) == 6
    drawn = Counter(round(loss(scores, slate([[0.0, 0.0, 0.0, 1.0]])).item(), 9) for _ in range(600))
    assert set(drawn) == set(ways)
    assert all(60 < count < 140 for count in drawn.values())


def test_the_order_changes_with_each_training_step_and_not_in_evaluation():
    loss, scores = RandomTiesListMLE(), double([[0.1, 0.9, 2.5, -0.4, 1.4]])
    one = slate([[0.0, 0.0, 0.0, 1.0, 0.0]])
    assert len({loss(scores, one).item() for _ in range(8)}) > 3
    loss.eval()
    assert len({loss(scores, one).item() for _ in range(8)}) == 1


def test_listnet_is_cross_entropy_with_labels_divided_by_their_sum():
    found = LOSSES[LISTNET]()(double(SCORES), slate(LABELS))
    want = 0.0
    for scores, labels in zip(SCORES, LABELS, strict=True):
        total = math.log(sum(math.exp(s) for s in scores))
        want -= sum(y / sum(labels) * (s - total) for s, y in zip(scores, labels, strict=True)) / 2
    assert found.item() == pytest.approx(want, rel=1e-12)
