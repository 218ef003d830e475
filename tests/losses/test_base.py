"""What every loss with memory promises its caller."""

import copy
import pickle

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE, Slate, losses
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from tests.slates import full_slate, sampled_slate

PAIRS, QUERIES, K = 64, 8, 3


def make(kind, pairs=PAIRS, **options):
    if kind == "song":
        return SONG(pairs, **options)
    if kind == "solc":
        return ListwiseCE(pairs, **options)
    return KSONG(pairs, QUERIES, K, mode=kind, **options)


def slate_for(kind, seed=0):
    return sampled_slate(seed, k=K if kind in ("theoretical", "practical") else None)


def draw(slate, seed=0):
    return torch.randn(slate.label.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


KINDS = ("song", "theoretical", "practical", "solc")
every_kind = pytest.mark.parametrize("kind", KINDS)


def memory(loss):
    return {name: loss.table(name).values.clone() for name in loss.by_pair + loss.by_query}


@every_kind
def test_state_round_trips_through_state_dict(kind, tmp_path):
    loss = make(kind)
    for seed in range(3):
        loss(draw(slate_for(kind, seed), seed), slate_for(kind, seed))
    torch.save(loss.state_dict(), tmp_path / "state.pt")
    other = make(kind)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for name, values in memory(loss).items():
        assert torch.equal(memory(other)[name], values)
    scores, slate = draw(slate_for(kind, 5), 5), slate_for(kind, 5)
    assert torch.equal(loss(scores, slate), other(scores, slate))


@every_kind
def test_evaluation_mode_and_the_objective_change_no_state(kind):
    loss = make(kind)
    loss(draw(slate_for(kind)), slate_for(kind))
    before = memory(loss)
    loss.objective(draw(slate_for(kind, 1), 1), slate_for(kind, 1))
    loss.eval()
    loss(draw(slate_for(kind, 1), 1), slate_for(kind, 1))
    for name, values in memory(loss).items():
        assert torch.equal(values, before[name])


@every_kind
def test_autocast_does_not_coarsen_the_objective(kind):
    slate = slate_for(kind)
    scores = draw(slate).float()
    plain = make(kind).objective(scores, slate)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(make(kind).objective(scores, slate), plain)


@every_kind
def test_the_pure_step_gives_what_forward_gives(kind):
    loss, pure = make(kind, dtype=torch.float64), make(kind, dtype=torch.float64)
    rows = pure.gather(slate_for(kind))
    for seed in range(3):
        slate = slate_for(kind, seed)
        scores, again = draw(slate, seed).requires_grad_(), draw(slate, seed).requires_grad_()
        value = loss(scores, slate)
        rows = pure.gather(slate)
        kept = {name: part.clone() for name, part in rows.items()}
        other, new = pure.step(again, slate, rows)
        value.backward()
        other.backward()
        assert torch.equal(value, other)
        assert torch.equal(scores.grad, again.grad)
        assert all(torch.equal(rows[name], kept[name]) for name in rows)
        pure.scatter(slate, new)
        for name, values in memory(loss).items():
            assert torch.equal(memory(pure)[name], values)


@every_kind
def test_a_nan_score_never_enters_the_state_and_validation_names_its_query(kind):
    loss = make(kind)
    slate = slate_for(kind)
    loss(draw(slate), slate)
    before = memory(loss)
    scores = draw(slate, 1)
    scores[2, 0] = torch.nan
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, slate)
    assert bool(value.isnan()), "a NaN in the input is not hidden"
    value.backward()
    assert bool(leaf.grad[[0, 1, 3]].isfinite().all()), "nor does it reach other queries"
    after = memory(loss)
    assert all(bool(values.isfinite().all()) for values in after.values())
    pairs = slate.pair[2][slate.pair[2] >= 0]
    for name in loss.by_pair:
        assert torch.equal(after[name][pairs], before[name][pairs])
    for name in loss.by_query:
        assert torch.equal(after[name][2], before[name][2])
    with pytest.raises(ValueError, match=r"slate row 2 \(query 2\) has scores that are not finite"):
        make(kind, validate=True)(scores, slate)


@every_kind
def test_validation_refuses_a_slate_that_leaves_a_stratum_unsampled(kind):
    slate = slate_for(kind)
    fields = {name: getattr(slate, name) for name in slate.__dataclass_fields__}
    unsampled = Slate(**{**fields, "list_size": slate.list_size + torch.tensor([0, 9, 0, 0])})
    with pytest.raises(ValueError, match="irrelevant items, but none are sampled"):
        make(kind, validate=True)(draw(slate), unsampled)


@every_kind
def test_every_row_of_memory_is_a_float32_buffer_that_can_be_reset(kind):
    loss = make(kind).half().bfloat16()
    slate = slate_for(kind)
    loss(draw(slate).bfloat16().requires_grad_(), slate)
    for name in loss.by_pair + loss.by_query:
        values = loss.table(name).values
        assert values.dtype == torch.float32
        assert not values.requires_grad
        assert bool((~loss.table(name).read().isnan()).any())
    loss.reset()
    assert all(bool(loss.table(name).read().isnan().all()) for name in loss.by_pair + loss.by_query)


@every_kind
def test_memory_moves_with_the_loss_and_copies_with_it(kind):
    loss = make(kind)
    assert all(loss.to("meta").table(name).values.is_meta for name in loss.by_pair)
    original = make(kind)
    twin = copy.deepcopy(original)
    original(draw(slate_for(kind)), slate_for(kind))
    assert bool(twin.table(twin.by_pair[0]).read().isnan().all())


@every_kind
def test_rows_of_weight_zero_and_rows_of_padding_change_nothing(kind):
    slate = slate_for(kind)
    fields = {name: getattr(slate, name) for name in slate.__dataclass_fields__}
    extra = {name: torch.cat([value, value[:1]]) for name, value in fields.items() if isinstance(value, torch.Tensor)}
    extra["mask"][-1] = False
    extra["pair"][-1] = -1
    extra["row_weight"][-1] = 0.0
    padded = Slate(**{**fields, **extra})
    scores = draw(slate)
    one, other = make(kind, dtype=torch.float64), make(kind, dtype=torch.float64)
    for seed in range(2):
        wide = torch.cat([draw(slate, seed), torch.full((1, slate.label.shape[1]), 7.0)]).requires_grad_()
        scores = draw(slate, seed).requires_grad_()
        one(scores, slate).backward()
        other(wide, padded).backward()
        torch.testing.assert_close(wide.grad[:-1], scores.grad, rtol=1e-12, atol=0)
        assert bool((wide.grad[-1] == 0).all())
    for name, values in memory(one).items():
        assert torch.equal(memory(other)[name], values)


@every_kind
def test_losses_compile_into_one_graph(kind):
    loss, plain = make(kind), make(kind)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        slate = slate_for(kind, seed)
        scores, again = (draw(slate, seed).float().requires_grad_() for _ in range(2))
        compiled(scores, slate).backward()
        plain(again, slate).backward()
        torch.testing.assert_close(scores.grad, again.grad)
    for name, values in memory(loss).items():
        torch.testing.assert_close(memory(plain)[name], values)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SONG(10, gamma=0.0), r"gamma is 0.0; expected a number in \(0, 1\]"),
        (lambda: SONG(10, gamma=1.5), "gamma is 1.5"),
        (lambda: SONG(10, gamma="much"), "gamma is 'much'"),
        (lambda: SONG(-1), "num_pairs is -1; expected a whole number of at least 0"),
        (lambda: SONG(10, surrogate="hinge"), "surrogate is 'hinge'; expected one of 'squared_hinge'"),
        (lambda: SONG(10, margin=0.0), r"margin is 0.0; expected a number in \(0, inf\)"),
        (lambda: SONG(10, rank_offset=-1.0), r"rank_offset is -1.0; expected a number in \[0, inf\)"),
        (lambda: SONG(10, form=PaperForm(estimator="best")), "estimator is 'best'"),
        (lambda: SONG(10, pair_range=(4, 12)), r"pair_range is \(4, 12\)"),
        (lambda: SONG(10, dtype=torch.bfloat16), "dtype is torch.bfloat16"),
        (lambda: KSONG(10, 5, 0), "k is 0; expected a whole number of at least 1"),
        (lambda: KSONG(10, 5, 2.5), "k is 2.5; expected a whole number"),
        (lambda: KSONG(10, 5, 3, mode="fast"), "mode is 'fast'; expected one of 'theoretical', 'practical'"),
        (lambda: KSONG(10, 5, 3, threshold=ThresholdOptions(tau1=0.0)), "tau1 is 0.0"),
        (lambda: KSONG(10, 5, 3, threshold=ThresholdOptions(epsilon=2.0)), "epsilon is 2.0"),
        (lambda: KSONG(10, 5, 3, selector="step"), "selector is 'step'"),
        (lambda: KSONG(10, 5, 3, threshold=ThresholdOptions(rate=0.0)), "rate is 0.0"),
        (
            lambda: KSONG(10, 5, 3, form=PaperForm(implicit="none")),
            "implicit is 'none'; expected one of 'slate', 'regression', 'memory'",
        ),
        (lambda: ListwiseCE(10, gamma=2.0), "gamma is 2.0"),
        (lambda: losses.ApproxNDCG(temperature=0.0), "temperature is 0.0"),
        (lambda: losses.LambdaRank(k=0), "k is 0"),
        (lambda: losses.RankNet(sigma=-1.0), "sigma is -1.0"),
        (lambda: losses.BPR(sigma=0.0), "sigma is 0.0"),
        (lambda: losses.LambdaLoss(mu=-1.0), "mu is -1.0"),
        (lambda: losses.GBCE(t=1.5), r"t is 1.5; expected a number in \[0, 1\]"),
        (lambda: losses.NeuralNDCG(sinkhorn_iterations=-1), "sinkhorn_iterations is -1"),
        (lambda: losses.GumbelApproxNDCG(samples=0), "samples is 0"),
    ],
)
def test_bad_hyper_parameters_raise_on_construction(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


@pytest.mark.parametrize(
    "name",
    [kind.__name__ for kind in losses.LOSSES.values()],
)
def test_every_loss_refuses_scores_that_do_not_fit_the_slate(name):
    sizes = {"num_pairs": PAIRS, "num_queries": QUERIES, "queries_per_batch": QUERIES}
    loss = getattr(losses, name).build({"k": K} if name in ("KSONG", "FasterKSONG", "SLatK") else {}, sizes)
    slate = sampled_slate(0, k=loss.k)
    with pytest.raises(ValueError, match=r"scores has shape \[4, 10\]; expected that of slate.label, \[4, 11\]"):
        loss(torch.zeros(4, 10), slate)
    with pytest.raises(TypeError, match="scores is torch.int64; expected a floating point tensor"):
        loss(torch.zeros(4, 11, dtype=torch.int64), slate)
    with pytest.raises(TypeError, match="slate is 'Tensor'"):
        loss(torch.zeros(4, 11), torch.zeros(4, 11))


@pytest.mark.parametrize(("kind", "k"), [("song", 3), ("theoretical", None), ("theoretical", 5)])
def test_a_slate_made_for_another_k_raises(kind, k):
    slate = sampled_slate(0, k=k)
    with pytest.raises(
        ValueError,
        match=f"slate.k is {k}; expected the k of this loss, .*: pass k=.* to SlateSampler or Slate.from_batch",
    ):
        make(kind)(draw(slate), slate)


def test_a_baseline_with_a_k_of_its_own_refuses_slates_of_another():
    slate = sampled_slate(0, k=5)
    with pytest.raises(ValueError, match="slate.k is 5; expected the k of this loss, 3"):
        losses.LambdaRank(k=3)(draw(slate), slate)
    assert bool(losses.LambdaRank(k=5)(draw(slate), slate).isfinite())
    assert bool(losses.LambdaRank()(draw(slate), slate).isfinite())


@every_kind
def test_a_loss_can_be_pickled_with_its_memory(kind):
    loss = make(kind)
    loss(draw(slate_for(kind)), slate_for(kind))
    again = pickle.loads(pickle.dumps(loss))
    for name, values in memory(loss).items():
        assert torch.equal(memory(again)[name], values)
    scores, slate = draw(slate_for(kind, 1), 1), slate_for(kind, 1)
    assert torch.equal(again(scores, slate), loss(scores, slate))


def test_the_warm_up_takes_slates_of_any_k():
    slate = sampled_slate(0, k=5)
    assert bool(make("solc")(draw(slate), slate).isfinite())


@every_kind
def test_pairs_without_identity_need_gamma_one(kind):
    slate = Slate.from_batch(
        full_slate(0).label, torch.arange(3), k=K if kind in ("theoretical", "practical") else None
    )
    with pytest.raises(
        ValueError, match="slate.pair is None; expected a memory row id for each relevant pair, since gamma=0.1"
    ):
        make(kind)(draw(slate), slate)
    scores = draw(slate).requires_grad_()
    make(kind, gamma=1.0)(scores, slate).backward()
    assert float(scores.grad.abs().sum()) > 0


@every_kind
def test_a_pair_outside_the_memory_raises(kind):
    slate = slate_for(kind)
    fields = {name: getattr(slate, name) for name in slate.__dataclass_fields__}
    beyond = Slate(**{**fields, "pair": torch.where(slate.pair == slate.pair.max(), PAIRS, slate.pair)})
    with pytest.raises(IndexError, match="row id 64 of the slate is not in the memory; .* below num_pairs=64"):
        make(kind)(draw(slate), beyond)
    with pytest.raises(ValueError, match="slate.pair is 64; expected row ids from 0 to 63, the memory of this loss"):
        make(kind, validate=True)(draw(slate), beyond)


@every_kind
def test_without_pairs_in_memory_gamma_must_be_one(kind):
    slate = slate_for(kind)
    with pytest.raises(ValueError, match="num_pairs is 0; expected relevance.num_pairs, since gamma=0.1 is below 1"):
        make(kind, pairs=0)(draw(slate), slate)
    value = make(kind, pairs=0, gamma=1.0)(draw(slate), slate)
    torch.testing.assert_close(value, make(kind, gamma=1.0)(draw(slate), slate))


def test_the_repr_names_gamma_and_k():
    assert "gamma=0.3\n" in repr(SONG(PAIRS, 0.3))
    assert f"gamma=0.1, k={K}\n" in repr(KSONG(PAIRS, QUERIES, K))
