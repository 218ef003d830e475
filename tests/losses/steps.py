"""Helpers that tests of several modules share."""

import torch

STEPS = 4

PAIRS = 64

QUERIES = 8


def run(loss, oracle, slates, scale=1.5):
    """Steps of both; compares value, gradient and state after each. Returns the largest relative error."""
    generator = torch.Generator().manual_seed(11)
    worst = 0.0
    for slate in slates:
        scores = scale * torch.randn(slate.label.shape, generator=generator, dtype=torch.float64)
        garbage = torch.where(slate.mask, scores, torch.full_like(scores, torch.nan)).requires_grad_()
        value = loss(garbage, slate)
        value.backward()
        expected, gradient = oracle(scores, slate)
        gradient = torch.tensor(gradient, dtype=torch.float64)
        error = (garbage.grad - gradient).norm() / gradient.norm()
        worst = max(worst, float(error), abs(float(value.detach()) - expected) / abs(expected))
    return worst


def states(loss, oracle):
    pairs = torch.tensor(sorted(oracle.u), dtype=torch.int64)
    tables = [(loss.u.read(pairs), oracle.u)]
    if oracle.k is not None and oracle.form == "bilevel":
        queries = torch.tensor(sorted(oracle.lam), dtype=torch.int64)
        tables += [(loss.threshold.read(queries), oracle.lam), (loss.curvature.read(queries), oracle.s)]
    for held, expected in tables:
        torch.testing.assert_close(
            held, torch.tensor([expected[row] for row in sorted(expected)], dtype=torch.float64), rtol=1e-9, atol=1e-12
        )
