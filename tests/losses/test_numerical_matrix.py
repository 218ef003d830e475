"""One table over all losses, and what none of them may do: see padding, depend on an order, overflow, leak.

A new loss is one new row of ``TABLE``. Each comparison runs fresh losses over a few steps on one slate, so that what
is remembered between steps is compared too.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import pytest
import torch
from torch import Tensor

from songrank import Slate, losses
from songrank.losses import (
    KSONG,
    SONG,
    ApproxNDCG,
    FasterKSONG,
    FasterSONG,
    GumbelApproxNDCG,
    LambdaRank,
    ListMLE,
    ListNet,
    ListwiseCE,
    NeuralNDCG,
    PiRank,
    PointwiseBCE,
    RankingLoss,
    RankNet,
    SoftmaxCE,
)

PAIRS, QUERIES, K = 12, 8, 2
COUNTS = ("steps", "guarded", "last_query", "last_threshold")  # of the faster forms: what the last step was, no rows


@dataclass(frozen=True)
class Row:
    name: str
    make: Callable[..., RankingLoss]
    """Called with the precision of the memory as ``dtype``, where the loss has one."""
    k: int | None = None
    """The k its slates are made for."""
    memory: bool = False
    shift_invariant: bool = True
    variant: bool = False
    """Another setting of a loss that has a row already."""
    noisy: bool = False
    """Draws noise for each item, so that equal items are not treated alike."""

    def build(self, dtype: torch.dtype) -> RankingLoss:
        finest = torch.float64 if dtype == torch.float64 else torch.float32
        return self.make(dtype=finest) if self.memory else self.make()


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors this small gain nothing from threads, and threads that wait for a busy core cost a hundredfold."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def song(**options):
    return lambda dtype: SONG(PAIRS, dtype=dtype, **options)


def ksong(**options):
    return lambda dtype: KSONG(PAIRS, QUERIES, K, dtype=dtype, **options)


TABLE = [
    Row("SONG", song(), memory=True),
    Row("SONG-paper", song(rank_offset=0.0, lagged=True), memory=True, variant=True),
    Row("SONG-logistic", song(surrogate="logistic", gamma=1.0), memory=True, variant=True),
    Row("SONG-plain", song(surrogate="smooth_hinge", margin=1.5, estimator="plain"), memory=True, variant=True),
    Row("KSONG-theoretical", ksong(), k=K, memory=True),
    Row("KSONG-practical", ksong(mode="practical"), k=K, memory=True),
    Row("KSONG-rank", ksong(form="rank"), k=K, memory=True),
    Row(
        "KSONG-step",
        ksong(selector="smooth_step", smoothing="hinge", threshold_step="gradient", lagged=True, tau2=0.0),
        k=K,
        memory=True,
    ),
    Row("FasterSONG", lambda dtype: FasterSONG(PAIRS, QUERIES, QUERIES, dtype=dtype), memory=True),
    Row("FasterKSONG", lambda dtype: FasterKSONG(PAIRS, QUERIES, K, QUERIES, dtype=dtype), k=K, memory=True),
    Row("ListwiseCE", lambda dtype: ListwiseCE(PAIRS, dtype=dtype), memory=True),
    Row("ListwiseCE-batch", lambda dtype: ListwiseCE(PAIRS, gamma=1.0, dtype=dtype), memory=True, variant=True),
    Row("ApproxNDCG", ApproxNDCG),
    Row("GumbelApproxNDCG", GumbelApproxNDCG, noisy=True),
    Row("LambdaRank", LambdaRank),
    Row("LambdaRank-at-2", lambda: LambdaRank(k=2), variant=True),
    Row("ListMLE", ListMLE),
    Row("ListNet", ListNet),
    Row("NeuralNDCG", NeuralNDCG),
    Row("NeuralNDCG-at-2", lambda: NeuralNDCG(k=2, sinkhorn_iterations=5), variant=True),
    Row("PiRank", PiRank),
    Row("PiRank-at-2", lambda: PiRank(k=2), variant=True),
    Row("PointwiseBCE", PointwiseBCE, shift_invariant=False),
    Row("RankNet", RankNet),
    Row("SoftmaxCE", SoftmaxCE),
]
every_row = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
with_memory = pytest.mark.parametrize("row", [row for row in TABLE if row.memory], ids=lambda row: row.name)
every_slate = pytest.mark.parametrize("kind", ["full", "sampled", "shared"])
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
half_precision = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def test_every_public_loss_has_a_row():
    public = [getattr(losses, name) for name in losses.__all__]
    concrete = {
        entry
        for entry in public
        if inspect.isclass(entry) and issubclass(entry, RankingLoss) and not inspect.isabstract(entry)
    }
    assert {type(row.build(torch.float32)) for row in TABLE} == concrete


# ---- slates


def full_slate(k=None) -> Slate:
    """Whole lists of different lengths, as a user's own loop has them: counts and ideal DCG come from the labels."""
    labels = torch.tensor(
        [
            [2.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0, 3.0, 1.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0],
        ]
    )
    mask = torch.tensor(
        [
            [True, True, True, True, True, True, True],
            [True, True, True, False, True, True, False],
            [True, True, True, True, False, True, True],
            [True, True, True, False, False, True, True],
        ]
    )
    pair = torch.tensor(
        [
            [3, -1, 0, -1, 1, -1, -1],
            [-1, 4, -1, -1, 2, 7, -1],
            [-1, -1, 5, -1, -1, -1, -1],
            [6, -1, -1, -1, -1, -1, 11],
        ]
    )
    return Slate.from_batch(labels, torch.tensor([5, 0, 3, 6]), pair, mask, k=k)


def sampled_slate(k=None) -> Slate:
    """A sampler's slate: part of longer lists, relevant items anywhere, padding between, weights of the queries."""
    labels = torch.tensor(
        [
            [1.0, 0.0, 0.0, 2.0, 0.0, 0.5, 0.0, 0.0],
            [0.0, 3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    mask = torch.ones(3, 8, dtype=torch.bool)
    mask[0, 4] = mask[1, 0] = mask[1, 7] = mask[2, 5] = False
    slate = Slate(
        query=torch.tensor([2, 7, 4]),
        item=torch.arange(24).view(3, 8) * 3,
        label=labels,
        mask=mask,
        pair=torch.tensor([[0, 8, 3], [-1, 5, 10], [9, -1, -1]]),
        column=torch.tensor([[3, 0, 5], [0, 4, 1], [2, 0, 0]]),
        list_size=torch.tensor([40, 9, 500]),
        num_relevant=torch.tensor([5, 2, 1]),
        ideal_dcg=torch.tensor([6.5, 7.7, 1.0]),
        k=k,
        row_weight=torch.tensor([1.0, 0.5, 2.0]),
    )
    slate.check()
    return slate


def shared_slate(k=None) -> Slate:
    """All rows share candidates and mask; one list is no longer than K."""
    labels = torch.tensor([[0.0, 1.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0]])
    slate = Slate(
        query=torch.tensor([1, 6]),
        item=torch.tensor([[4, 9, 2, 7, 0]]),
        label=labels,
        mask=torch.tensor([[True, True, False, True, True]]),
        pair=torch.tensor([[1, 2], [3, 4]]),
        column=torch.tensor([[1, 3], [0, 4]]),
        list_size=torch.tensor([30, 4]),
        num_relevant=torch.tensor([2, 2]),
        ideal_dcg=torch.tensor([3.6, 1.6]),
        k=k,
    )
    slate.check()
    return slate


SLATES = {"full": full_slate, "sampled": sampled_slate, "shared": shared_slate}


def scores_for(slate: Slate, steps=3, dtype=torch.float64, seed=0, scale=1.0) -> list[Tensor]:
    """Scores of a few steps, drawn in float32 so that every precision starts from the same numbers."""
    generator = torch.Generator().manual_seed(seed)
    return [(scale * torch.randn(slate.label.shape, generator=generator)).to(dtype) for _ in range(steps)]


# ---- runs


@dataclass
class Run:
    values: list[Tensor]
    gradients: list[Tensor]
    state: dict[str, Tensor]


def state_of(loss: torch.nn.Module) -> dict[str, Tensor]:
    return {name: buffer.detach().clone() for name, buffer in loss.named_buffers() if name not in COUNTS}


def run(row: Row, slate: Slate, steps: list[Tensor], loss=None, call=None) -> Run:
    """A fresh loss (or the one given) through a few steps of scores on one slate."""
    loss = row.build(steps[0].dtype) if loss is None else loss
    values, gradients = [], []
    for scores in steps:
        scores = scores.clone().requires_grad_()
        value = (loss if call is None else call)(scores, slate)
        value.backward()
        values.append(value.detach())
        gradients.append(scores.grad)
    return Run(values, gradients, state_of(loss))


def close(found, want, dtype=torch.float64, **options):
    """Equal to the last bits of the precision that the loss computes in (gradients: that the scores have)."""
    limits = {
        torch.float64: {"rtol": 1e-9, "atol": 1e-12},
        torch.float32: {"rtol": 1e-4, "atol": 1e-6},
        torch.bfloat16: {"rtol": 2**-7, "atol": 1e-5},
        torch.float16: {"rtol": 2**-9, "atol": 1e-5},
    }
    torch.testing.assert_close(found, want, **(limits[dtype] | options))


def same(found: Run, want: Run, dtype, pick=lambda gradient: gradient, state=True):
    working = torch.float64 if dtype == torch.float64 else torch.float32
    close(found.values, want.values, working)
    close([pick(gradient) for gradient in found.gradients], want.gradients, dtype)
    if state:
        close(found.state, want.state, working)


def widened(slate: Slate) -> Slate:
    """The same with item and mask of its own for every row."""
    shape = slate.label.shape
    return replace(slate, item=slate.item.expand(shape).clone(), mask=slate.mask.expand(shape).clone())


# ---- padding


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


# ---- order


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


# ---- range and precision


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


# ---- one query and the others


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
def test_shifting_all_scores_of_a_query_changes_no_gradient_but_that_of_the_pointwise_loss(kind):
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
    assert moved == {"PointwiseBCE"}


# ---- state


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


# ---- compilation


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
