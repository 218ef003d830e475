"""No loss depends on the order of columns or of queries."""

from dataclasses import fields, replace

import torch
from torch import Tensor

from tests.losses.loss_table import (
    SLATES,
    close,
    every_dtype,
    every_row,
    every_slate,
    full_slate,
    run,
    same,
    scores_for,
    widened,
)


@every_row
@every_slate
@every_dtype
def test_permuting_the_columns_permutes_the_gradient(row, kind, dtype):
    slate = widened(SLATES[kind](row.k))
    steps = scores_for(slate, dtype=dtype)
    want = run(row, slate, steps)
    generator = torch.Generator().manual_seed(8)
    rows, length = slate.label.shape
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(rows)])
    turned = torch.randperm(slate.pair.shape[1], generator=generator)
    moved = replace(
        slate,
        item=slate.item.gather(1, order),
        label=slate.label.gather(1, order),
        mask=slate.mask.gather(1, order),
        pair=slate.pair[:, turned],
        column=order.argsort(1).gather(1, slate.column[:, turned]),
    )
    found = run(row, moved, [scores.gather(1, order) for scores in steps])
    same(found, want, dtype, pick=lambda gradient: gradient.gather(1, order.argsort(1)))


@every_row
@every_slate
def test_permuting_the_queries_permutes_the_gradient(row, kind):
    slate = widened(SLATES[kind](row.k))
    steps = scores_for(slate)
    want = run(row, slate, steps)
    order = torch.arange(len(slate.query)).flip(0)
    parts = {entry.name: getattr(slate, entry.name) for entry in fields(slate)}
    tensors = {name: part[order] for name, part in parts.items() if isinstance(part, Tensor)}
    found = run(row, replace(slate, **tensors), [scores[order] for scores in steps])
    same(found, want, torch.float64, pick=lambda gradient: gradient[order])


@every_row
def test_tied_items_of_one_label_are_treated_alike(row):
    slate = full_slate(row.k)
    steps = [torch.zeros(slate.label.shape, dtype=torch.float64), torch.full(slate.label.shape, 3.0).double()]
    found = run(row, slate, steps)
    for value, gradient in zip(found.values, found.gradients, strict=True):
        assert value.isfinite()
        assert gradient.isfinite().all()
        for query in range(len(slate.query)):
            for label in slate.label[query].unique():
                alike = gradient[query][slate.mask[query] & (slate.label[query] == label)]
                if not row.noisy and len(alike):
                    close(alike, alike[:1].expand_as(alike))


@every_row
@every_slate
@every_dtype
def test_duplicated_scores_break_nothing(row, kind, dtype):
    slate = SLATES[kind](row.k)
    steps = [scores.round() for scores in scores_for(slate, dtype=dtype, seed=3)]
    found = run(row, slate, steps)
    assert all(value.isfinite() for value in found.values)
    assert all(gradient.isfinite().all() for gradient in found.gradients)
    assert all(buffer.isfinite().all() for buffer in found.state.values())
