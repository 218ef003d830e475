"""Helpers that tests of several modules share."""

import torch

from songrank_paper.theory.problem import (
    FEATURES,
)


def weights(seed=0, runs=1, scale=0.5):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(runs, FEATURES, generator=generator, dtype=torch.float64)
