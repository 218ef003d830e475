"""ListNet, softmax and ListMLE."""

import torch

from songrank import functional as F


def test_listmle_learns_no_order_among_equal_labels():
    scores = torch.tensor([[0.3, -1.0, 2.0, 0.5]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 1.0, 0.0, 1.0]], dtype=torch.float64)
    order = torch.tensor([3, 0, 2, 1])
    torch.testing.assert_close(F.listmle_loss(scores, labels), F.listmle_loss(scores[:, order], labels[:, order]))
