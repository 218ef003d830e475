"""Extreme scores and low precision, for every loss of the table."""

import pytest
import torch
from torch import Tensor

from songrank import Slate
from tests.losses.loss_table import (
    COUNTS,
    SLATES,
    close,
    every_dtype,
    every_row,
    every_slate,
    half_precision,
    run,
    same,
    sampled_slate,
    scores_for,
    with_memory,
)


def far(slate: Slate, dtype) -> list[Tensor]:
    """Scores up to ±1e4 in patterns that overflow what can overflow; then their opposites, and back."""
    rows, length = slate.label.shape
    place = torch.arange(length).expand(rows, length)
    patterns = [
        torch.where(slate.label > 0, -1e4, 1e4),  # every relevant item at the very bottom
        torch.where(slate.label > 0, 1e4, -1e4),
        torch.full((rows, length), 1e4),
        torch.where(place % 2 == 0, 1e4, -1e4),
        torch.where(place == 0, 1e4, 0.0),
        torch.linspace(-1e4, 1e4, length).expand(rows, length),
        *scores_for(slate, steps=2, scale=4e3, seed=5),
    ]
    return [pattern.to(torch.float32).clamp(-1e4, 1e4).to(dtype) for pattern in patterns]


@every_row
@pytest.mark.parametrize("kind", ["full", "sampled"])
@every_dtype
def test_extreme_scores_give_finite_value_gradient_and_state(row, kind, dtype):
    slate = SLATES[kind](row.k)
    patterns = far(slate, dtype)
    first_visits = [[pattern, -pattern] for pattern in patterns]
    for steps in [*first_visits, patterns]:
        found = run(row, slate, steps)
        assert all(value.isfinite() for value in found.values)
        assert all(gradient.isfinite().all() for gradient in found.gradients)
        assert all(buffer.isfinite().all() for buffer in found.state.values())


@every_row
@half_precision
def test_half_precision_gives_a_gradient_of_its_own_type_near_that_of_float32(row, dtype):
    slate = sampled_slate(row.k)
    rough = scores_for(slate, dtype=dtype)
    found = run(row, slate, rough)
    assert all(gradient.dtype == dtype for gradient in found.gradients)
    want = run(row, slate, [scores.float() for scores in rough])
    close(found.values, want.values, torch.float32)
    close([gradient.float() for gradient in found.gradients], want.gradients, dtype)
    close(found.state, want.state, torch.float32)


@every_row
@every_slate
def test_float32_is_near_float64(row, kind):
    slate = SLATES[kind](row.k)
    fine = run(row, slate, scores_for(slate, dtype=torch.float64))
    rough = run(row, slate, scores_for(slate, dtype=torch.float32))
    for found, want in zip(rough.values + rough.gradients, fine.values + fine.gradients, strict=True):
        torch.testing.assert_close(found.double(), want, rtol=1e-3, atol=1e-5)


@with_memory
def test_casting_a_loss_to_half_precision_leaves_its_memory_alone(row):
    for cast in (torch.nn.Module.half, torch.nn.Module.bfloat16):
        loss = cast(row.build(torch.float32))
        kinds = {buffer.dtype for name, buffer in loss.named_buffers() if name not in COUNTS}
        assert kinds == {torch.float32}


@every_row
@every_slate
def test_autocast_around_a_loss_changes_nothing(row, kind):
    slate = SLATES[kind](row.k)
    steps = scores_for(slate, dtype=torch.float32)
    want = run(row, slate, steps)
    loss = row.build(torch.float32)

    def under_autocast(scores, slate):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(scores, slate)

    same(run(row, slate, steps, loss, under_autocast), want, torch.float32)


@every_row
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_lists_of_one_item_and_of_relevant_items_only_give_finite_results(row, scale):
    labels = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, False, False], [True, False, False], [True, True, True], [True, True, True]])
    pair = torch.tensor([[3, -1, -1], [-1, -1, -1], [4, 1, 2], [-1, -1, -1]])
    slate = Slate.from_batch(labels, torch.tensor([5, 0, 3, 6]), pair, mask, k=row.k)
    found = run(row, slate, scores_for(slate, scale=scale))
    assert all(value.isfinite() for value in found.values)
    assert all(gradient.isfinite().all() for gradient in found.gradients)
    assert all(buffer.isfinite().all() for buffer in found.state.values())
