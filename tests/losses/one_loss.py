"""A list loss on a small slate, against the plain float64 formula of each list."""

import torch

from songrank import Slate
from songrank.losses.registry import LOSSES
from tests.functional.list_loss_table import batch


def check_formula(name, oracle, options):
    """The registered loss is the mean of its formula over lists; gradients reach scores, and none reaches padding."""
    scores, labels, mask = batch(5, seed=3)
    labels, scores = (labels * mask).float(), scores.requires_grad_()
    slate = Slate.from_batch(labels, query=torch.arange(5), mask=mask)
    value = LOSSES[name](**options)(scores, slate)
    rows = [mask[row].nonzero().flatten().tolist() for row in range(5)]
    lists = [
        ([scores[row, at].item() for at in there], [labels[row, at].item() for at in there])
        for row, there in enumerate(rows)
    ]
    expected = sum(oracle(one, label, one, [], **options) for one, label in lists) / 5
    torch.testing.assert_close(value.item(), expected, rtol=1e-5, atol=1e-6)
    (gradient,) = torch.autograd.grad(value, scores)
    assert not gradient[~mask].any()
    assert gradient[mask].isfinite().all()
    assert gradient.any()
