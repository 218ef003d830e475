"""What stands at padding changes nothing, for every loss of the table."""

import math
from dataclasses import replace

import torch

from tests.losses.loss_table import (
    SLATES,
    every_dtype,
    every_row,
    every_slate,
    full_slate,
    run,
    same,
    scores_for,
    state_of,
    widened,
)


@every_row
@every_slate
@every_dtype
def test_padding_columns_change_neither_value_nor_gradient_nor_state(row, kind, dtype):
    slate = SLATES[kind](row.k)
    steps = scores_for(slate, dtype=dtype)
    want = run(row, slate, steps)

    garbage = torch.tensor([math.nan, math.inf, -math.inf, 5e4])
    rows, length, more = *slate.label.shape, len(garbage)
    nothing = torch.full((rows, 2), -1)
    longer = replace(
        slate,
        item=torch.cat([slate.item, torch.full((slate.item.shape[0], more), 77)], 1),
        label=torch.cat([slate.label, garbage.flip(0).expand(rows, more)], 1),
        mask=torch.cat([slate.mask, torch.zeros(slate.mask.shape[0], more, dtype=torch.bool)], 1),
        pair=torch.cat([slate.pair, nothing], 1),
        column=torch.cat([slate.column, torch.full_like(nothing, length + 1)], 1),
    )
    found = run(row, longer, [torch.cat([scores, garbage.to(dtype).expand(rows, more)], 1) for scores in steps])
    same(found, want, dtype, pick=lambda gradient: gradient[:, :length])
    assert all((gradient[:, length:] == 0).all() for gradient in found.gradients)


@every_row
@every_slate
def test_what_stands_at_padding_is_never_read(row, kind):
    slate = SLATES[kind](row.k)
    steps = scores_for(slate)
    want = run(row, slate, steps)
    mask = slate.mask.expand(slate.label.shape)
    for garbage in (math.nan, math.inf, -math.inf, 1e30):
        dirty = replace(slate, label=torch.where(mask, slate.label, torch.full_like(slate.label, garbage)))
        filled = [torch.where(mask, scores, torch.full_like(scores, garbage)) for scores in steps]
        same(run(row, dirty, filled), want, torch.float64)


@every_row
@every_slate
@every_dtype
def test_padding_rows_change_nothing_even_under_the_name_of_a_query_that_is_there(row, kind, dtype):
    slate = widened(SLATES[kind](row.k))
    steps = scores_for(slate, dtype=dtype)
    want = run(row, slate, steps)
    more, length = 2, slate.label.shape[1]
    tall = replace(
        slate,
        query=torch.cat([slate.query, slate.query[:1].expand(more)]),
        item=torch.cat([slate.item, torch.zeros(more, length, dtype=torch.int64)]),
        label=torch.cat([slate.label, torch.full((more, length), math.nan)]),
        mask=torch.cat([slate.mask, torch.zeros(more, length, dtype=torch.bool)]),
        pair=torch.cat([slate.pair, torch.full((more, slate.pair.shape[1]), -1)]),
        column=torch.cat([slate.column, torch.zeros(more, slate.pair.shape[1], dtype=torch.int64)]),
        list_size=torch.cat([slate.list_size, torch.zeros(more, dtype=torch.int64)]),
        num_relevant=torch.cat([slate.num_relevant, torch.zeros(more, dtype=torch.int64)]),
        ideal_dcg=torch.cat([slate.ideal_dcg, torch.zeros(more)]),
        row_weight=None if slate.row_weight is None else torch.cat([slate.row_weight, torch.ones(more)]),
    )
    found = run(row, tall, [torch.cat([scores, torch.full((more, length), math.nan).to(dtype)]) for scores in steps])
    same(found, want, dtype, pick=lambda gradient: gradient[:-more])
    assert all((gradient[-more:] == 0).all() for gradient in found.gradients)


@every_row
def test_rows_of_weight_zero_add_nothing_to_value_and_gradient(row):
    slate = full_slate(row.k)
    steps = scores_for(slate)
    found = run(row, replace(slate, row_weight=torch.tensor([1.0, 0.0, 1.0, 0.0])), steps)
    assert all((gradient[[1, 3]] == 0).all() for gradient in found.gradients)
    alone = replace(
        slate,
        **{
            name: getattr(slate, name)[[0, 2]]
            for name in ("query", "label", "mask", "pair", "column", "list_size", "num_relevant", "ideal_dcg")
        },
    )
    want = run(row, alone, [scores[[0, 2]] for scores in steps])
    same(found, want, torch.float64, pick=lambda gradient: gradient[[0, 2]], state=False)


@every_row
@every_dtype
def test_an_all_masked_row_gives_zero_and_leaves_the_others_alone(row, dtype):
    slate = full_slate(row.k)
    steps = scores_for(slate, dtype=dtype)
    empty = replace(
        slate,
        mask=slate.mask & torch.tensor([[True], [False], [True], [True]]),
        pair=torch.where(torch.tensor([[False], [True], [False], [False]]), -1, slate.pair),
    )
    found = run(row, empty, steps)
    assert all(value.isfinite() for value in found.values)
    assert all((gradient[1] == 0).all() for gradient in found.gradients)
    without = replace(slate, row_weight=torch.tensor([1.0, 0.0, 1.0, 1.0]))
    same(found, run(row, without, steps), dtype, state=False)


@every_row
@every_dtype
def test_an_all_masked_batch_gives_zero_with_a_live_graph_and_remembers_nothing(row, dtype):
    slate = full_slate(row.k)
    nothing = replace(slate, mask=torch.zeros_like(slate.mask), pair=torch.full_like(slate.pair, -1))
    before = state_of(row.build(dtype))
    found = run(row, nothing, [torch.full_like(scores, math.nan) for scores in scores_for(slate, dtype=dtype)])
    assert all(value == 0 for value in found.values)
    assert all((gradient == 0).all() for gradient in found.gradients)
    for name, buffer in found.state.items():
        assert name == "steps" or buffer.equal(before[name])
