"""Smooth objectives by loops over full lists, and their gradients by finite differences."""

import torch

from tests.oracles.memory_losses import outer, rows_of, selector, surrogate


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
