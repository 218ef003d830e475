"""Sinkhorn by scaling vectors against dividing the matrix itself, values and gradients."""

import pytest
import torch

from songrank.functional.neural_sort import balanced_product


def divided(matrix, values, iterations):
    """Columns and rows of the matrix divided by their sums; those that sum to nothing are left."""
    for _ in range(iterations):
        for axis in (-2, -1):
            total = matrix.sum(axis, keepdim=True)
            matrix = matrix / torch.where(total > 1e-18, total, torch.ones_like(total))
    return (matrix * values.unsqueeze(-2)).sum(-1)


def with_empty_lines(seed, *shape):
    """A matrix some of whose lines are 0, or next to nothing."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(*shape, generator=generator, dtype=torch.float64) ** 4
    matrix[..., :, -1] = 0.0
    matrix[..., -1, :] = 0.0
    matrix[..., :, 1] *= 1e-25
    return matrix, torch.rand(shape[:-1], generator=generator, dtype=torch.float64)


def value_and_gradient(function, matrix, values, iterations, direction):
    leaf = matrix.clone().requires_grad_()
    out = function(leaf, values, iterations)
    return out.detach(), torch.autograd.grad((out * direction).sum(), leaf)[0]


@pytest.mark.parametrize("iterations", [0, 1, 2, 7])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 6, 6), (2, 3, 4, 4)])
def test_it_is_what_dividing_the_matrix_gives(iterations, shape):
    matrix, values = with_empty_lines(0, *shape)
    direction = torch.linspace(-1.0, 2.0, values.numel(), dtype=torch.float64).reshape(values.shape)
    got = value_and_gradient(balanced_product, matrix, values, iterations, direction)
    want = value_and_gradient(divided, matrix, values, iterations, direction)
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_its_precision_is_kept_under_autocast():
    matrix, values = (part.float() for part in with_empty_lines(1, 4, 6, 6))
    plain = value_and_gradient(balanced_product, matrix, values, 5, torch.ones_like(values))
    with torch.autocast("cpu", torch.bfloat16):
        inside = value_and_gradient(balanced_product, matrix, values, 5, torch.ones_like(values))
    for ours, theirs in zip(inside, plain, strict=True):
        assert torch.equal(ours, theirs)


def test_memory_holds_no_copy_of_the_matrix_for_an_iteration():
    matrix, values = with_empty_lines(2, 50, 50)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda t: t):
        balanced_product(matrix.requires_grad_(), values, 20)
    assert sum(size >= matrix.numel() for size in kept) == 1
