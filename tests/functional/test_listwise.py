"""Pointwise binary cross-entropy, ListNet, softmax and ListMLE."""

import torch

from songrank import functional as F
from tests.oracles import formulas


def test_listmle_learns_no_order_among_equal_labels():
    scores = torch.tensor([[0.3, -1.0, 2.0, 0.5]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 1.0, 0.0, 1.0]], dtype=torch.float64)
    order = torch.tensor([3, 0, 2, 1])
    torch.testing.assert_close(F.listmle_loss(scores, labels), F.listmle_loss(scores[:, order], labels[:, order]))


def test_binary_cross_entropy_is_the_mean_over_the_items_that_are_there():
    scores = torch.tensor([[0.5, -2.0, 3.0], [1.0, 0.0, 9.0]], dtype=torch.float64)
    labels = torch.tensor([[2.0, 0.0, 0.5], [0.0, 1.0, 1.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    found = F.bce_loss(scores, labels, mask=mask, reduction="none")
    lists = [(scores[0].tolist(), labels[0].tolist()), (scores[1, :2].tolist(), labels[1, :2].tolist())]
    torch.testing.assert_close(found.tolist(), [formulas.bce(one, label, one, []) for one, label in lists])
