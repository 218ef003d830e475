"""Losses over pairs that compare relevant items with the others alone."""

import pytest
import torch

from songrank.functional import lists
from tests.functional.list_loss_table import LOSSES, batch, expected, noise_like, value_and_gradient

KINDS = ("ranknet", "bpr", "lambdarank", "lambdaloss", "approx", "gumbel", "softmax", "sampled")
BY_COLUMN = [loss for loss in LOSSES if loss.name.split("-")[0] in KINDS]

every_loss_by_column = pytest.mark.parametrize("loss", BY_COLUMN, ids=lambda loss: loss.name)


def columns_of(labels, mask, seed=0):
    """[..., L + 2]: each list's relevant columns in any order, one or two others, and −1 wherever there is room."""
    generator = torch.Generator().manual_seed(seed)
    length = labels.shape[-1]
    relevant = (labels > 0) & mask
    wanted = relevant | (torch.rand(labels.shape, generator=generator) < 0.3)
    every = torch.where(wanted, torch.arange(length), -1)
    every = torch.cat([every, torch.full((*labels.shape[:-1], 2), -1)], -1)
    return every.gather(-1, torch.rand(every.shape, generator=generator).argsort(-1))


@every_loss_by_column
@pytest.mark.parametrize("leading", [(4,), (2, 3)], ids=str)
def test_comparing_the_relevant_columns_alone_follows_the_formula(loss, leading):
    scores, labels, mask = batch(*leading, length=7, seed=13)
    mask[..., 0] = False  # where an entry to ignore would look, if it looked
    labels[..., 0] = 3.0
    value, gradient = value_and_gradient(
        loss, scores, labels, mask=mask, reduction="none", column=columns_of(labels, mask)
    )
    want, want_gradient = expected(loss, scores, labels, mask)
    torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient, rtol=1e-6, atol=1e-8)


@every_loss_by_column
def test_one_list_without_batch_axes_takes_columns_too(loss):
    scores, labels, mask = batch(1, seed=16)
    draws = {"noise": noise_like(scores)[:, 0]} if "gumbel" in loss.name else {}
    column = columns_of(labels, mask)[0]
    value, gradient = value_and_gradient(loss, scores[0], labels[0], mask=mask[0], column=column, **draws)
    want, want_gradient = expected(loss, scores, labels, mask)
    torch.testing.assert_close(value, want[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient[0], rtol=1e-6, atol=1e-8)


@every_loss_by_column
def test_columns_that_hold_every_relevant_item_change_no_digit_that_matters(loss):
    scores, labels, mask = batch(40, length=23, seed=14)
    scores = scores.round(decimals=1)  # ties
    labels[:20] *= torch.rand(20, 23, generator=torch.Generator().manual_seed(0)) < 0.2
    want = value_and_gradient(loss, scores, labels, mask=mask, reduction="none")
    found = value_and_gradient(
        loss, scores, labels, mask=mask, reduction="none", column=columns_of(labels, mask, seed=1)
    )
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-14)


@every_loss_by_column
def test_columns_of_another_shape_or_type_are_refused(loss):
    scores, labels, mask = batch(3)
    column = columns_of(labels, mask)
    with pytest.raises(ValueError, match="column"):
        loss(scores, labels, mask=mask, column=column[:2])
    with pytest.raises(TypeError, match="column is torch.int32; expected dtype torch.int64"):
        loss(scores, labels, mask=mask, column=column.int())


@every_loss_by_column
@pytest.mark.parametrize("limit", [1, 100, 250])
def test_comparing_a_few_lists_at_a_time_changes_nothing(loss, limit, monkeypatch):
    scores, labels, mask = batch(2, 3, length=8, seed=15)
    column = columns_of(labels, mask)
    whole = [
        value_and_gradient(loss, scores, labels, mask=mask, reduction="none", column=given) for given in (None, column)
    ]
    monkeypatch.setattr(lists, "_IN_MEMORY", limit)
    parts = [
        value_and_gradient(loss, scores, labels, mask=mask, reduction="none", column=given) for given in (None, column)
    ]
    torch.testing.assert_close(parts, whole, rtol=1e-13, atol=1e-15)
