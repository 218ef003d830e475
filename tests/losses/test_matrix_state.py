"""What a loss remembers: nothing of other queries, of a NaN, or of a graph; and it compiles."""

import math
from dataclasses import replace

import pytest
import torch

from songrank.losses.registry import LOSSES
from tests.losses.loss_table import (
    PAIRS,
    SLATES,
    TABLE,
    Row,
    Run,
    close,
    every_row,
    every_slate,
    full_slate,
    run,
    same,
    sampled_slate,
    scores_for,
    state_of,
    with_memory,
)


def test_every_registered_loss_has_a_row():
    assert {type(row.build(torch.float32)) for row in TABLE} == set(LOSSES.values())


@every_row
@pytest.mark.parametrize("outlier", [1e4, -1e4, math.nan, math.inf, -math.inf])
def test_one_querys_outlier_changes_no_other_querys_gradient_or_state(row, outlier):
    slate = full_slate(row.k)
    steps = scores_for(slate)
    want = run(row, slate, steps)
    spoilt = [scores.clone() for scores in steps]
    for scores in spoilt:
        scores[1, 1] = outlier
    found = run(row, slate, spoilt)
    others = [0, 2, 3]
    for gradient, clean in zip(found.gradients, want.gradients, strict=True):
        close(gradient[others], clean[others], rtol=1e-13, atol=1e-15)
    for name, buffer in found.state.items():
        assert buffer.isfinite().all()
        kept = torch.ones_like(buffer, dtype=torch.bool)
        if buffer.dim():
            kept[slate.pair[1][slate.pair[1] >= 0] if len(buffer) == PAIRS + 1 else slate.query[1]] = False
        close(buffer[kept], want.state[name][kept])


@with_memory
@pytest.mark.parametrize("before", [0, 1])
def test_a_step_with_a_nan_leaves_no_trace_in_that_querys_state(row, before):
    slate = full_slate(row.k)
    alone = replace(
        slate,
        **{
            name: getattr(slate, name)[[1]]
            for name in ("query", "label", "mask", "pair", "column", "list_size", "num_relevant", "ideal_dcg")
        },
    )
    clean = [scores[[1]] for scores in scores_for(slate, steps=3)]
    spoilt = clean[0].clone()
    spoilt[0, 0] = math.nan
    want = run(row, alone, clean)
    found = run(row, alone, [*clean[:before], spoilt, *clean[before:]])
    close(found.state, want.state)
    close(found.gradients[-1], want.gradients[-1])


def shifted_run(row: Row, kind: str) -> tuple[Run, Run]:
    slate = SLATES[kind](row.k)
    steps = scores_for(slate)
    shift = torch.tensor([[3.0], [-7.0], [100.0], [0.25]], dtype=torch.float64)[: len(slate.query)]
    return run(row, slate, [scores + shift for scores in steps]), run(row, slate, steps)


@every_slate
def test_shifting_all_scores_of_a_query_changes_no_gradient_but_that_of_pointwise_losses(kind):
    moved = set()
    for row in TABLE:
        found, want = shifted_run(row, kind)
        if not row.shift_invariant:
            differ = [(a - b).abs().max() > 1e-3 for a, b in zip(found.gradients, want.gradients, strict=True)]
            assert all(differ), row.name
            moved.add(row.name)
            continue
        close(found.values, want.values, rtol=1e-8, atol=1e-10, msg=lambda text, row=row: f"{row.name}: {text}")
        close(found.gradients, want.gradients, rtol=1e-8, atol=1e-10, msg=lambda text, row=row: f"{row.name}: {text}")
    assert moved == {"PointwiseBCE", "GBCE"}


@every_row
def test_no_graph_leaks_into_state(row):
    slate = sampled_slate(row.k)
    loss = row.build(torch.float32)
    weight = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for _ in range(3):  # a leak would make the second backward reach into the first graph
        (2.0 * loss(weight.tanh(), slate)).backward()
    for name, buffer in loss.named_buffers():
        assert not buffer.requires_grad, name
        assert buffer.grad_fn is None, name
    assert not list(loss.parameters())


@every_row
def test_the_gradient_flows_through_whatever_made_the_scores(row):
    slate = sampled_slate(row.k)
    (scores,) = scores_for(slate, steps=1)
    direct = run(row, slate, [3.0 * scores]).gradients[0]
    leaf = scores.clone().requires_grad_()
    (2.0 * row.build(torch.float64)(3.0 * leaf, slate)).backward()
    close(leaf.grad, 6.0 * direct)


@every_row
@every_slate
def test_eval_mode_and_the_objective_change_no_state(row, kind):
    slate = SLATES[kind](row.k)
    first, second, _ = scores_for(slate)
    loss = row.build(torch.float64)
    loss(first, slate)
    before = state_of(loss)
    loss.eval()
    value = run(row, slate, [second], loss)
    assert all(buffer.equal(before[name]) for name, buffer in state_of(loss).items())
    loss.objective(second, slate)
    assert all(buffer.equal(before[name]) for name, buffer in state_of(loss).items())
    loss.train()
    trained = run(row, slate, [second], loss)
    close(value.values, trained.values)
    close(value.gradients, trained.gradients)


@every_row
def test_the_objective_never_changes_state_even_in_training_mode(row):
    slate = full_slate(row.k)
    (scores,) = scores_for(slate, steps=1)
    loss = row.build(torch.float64)
    before = state_of(loss)
    value = loss.objective(scores.requires_grad_(), slate)
    assert not value.requires_grad
    assert value.isfinite()
    assert all(buffer.equal(before[name]) for name, buffer in state_of(loss).items())


@pytest.mark.parametrize("row", [row for row in TABLE if not row.variant], ids=lambda row: row.name)
def test_a_loss_compiles_to_one_graph_with_the_same_value_gradient_and_state(row):
    slate = sampled_slate(row.k)
    steps = scores_for(slate)
    want = run(row, slate, steps)
    torch._dynamo.reset()
    loss = row.build(torch.float64)
    compiled = torch.compile(loss, fullgraph=True, backend="eager", dynamic=False)
    same(run(row, slate, steps, loss, compiled), want, torch.float64)
    torch._dynamo.reset()
