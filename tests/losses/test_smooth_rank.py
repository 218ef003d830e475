"""The family of losses of smooth ranks in log space, against plain float64 loops over several steps of state."""

import math
from dataclasses import replace

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE, Relevance, Slate, SlateSampler
from songrank.losses import BSL, PSL, SLatK
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from tests.losses.smooth_objective import draw, numeric_gradient, smooth_objective
from tests.losses.steps import PAIRS, QUERIES, STEPS, run
from tests.oracles.memory_losses import SongOracle
from tests.slates import full_slate, sampled_slate

DOUBLE = torch.float64
INNER = [
    {"surrogate": "exponential"},
    {"surrogate": "exponential", "temperature": 0.3},
    {"surrogate": "tanh", "temperature": 0.5},
    {"surrogate": "atan", "temperature": 0.7},
    {"surrogate": "relu", "temperature": 0.4},
]


def held(loss, oracle):
    """ln u of the pairs that both have seen."""
    pairs = torch.tensor(sorted(oracle.u), dtype=torch.int64)
    want = torch.tensor([oracle.u[int(pair)] for pair in pairs], dtype=DOUBLE)
    torch.testing.assert_close(loss.log_u.read(pairs).exp(), want, rtol=1e-9, atol=1e-300)


def held_by_query(loss, oracle):
    queries = torch.tensor(sorted(oracle.lam), dtype=torch.int64)
    want = torch.tensor([oracle.lam[int(query)] for query in queries], dtype=DOUBLE)
    torch.testing.assert_close(loss.threshold.read(queries), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [sampled_slate, full_slate])
@pytest.mark.parametrize("inner", INNER, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"gamma": 1.0}, {"offset": None}, {"lagged": True}, {"estimator": "plain"}], ids=str
)
def test_song_in_log_space_gives_the_papers_estimator(make, inner, options):
    oracle = SongOracle(**{"gamma": 0.1, **inner, **options})
    form = PaperForm(lagged=oracle.lagged, estimator=oracle.estimator)
    loss = SONG(PAIRS, oracle.gamma, rank_offset=oracle.offset, form=form, dtype=DOUBLE, **inner)
    assert run(loss, oracle, [make(seed) for seed in range(STEPS)]) < 1e-9
    held(loss, oracle)


def weighted(seed, without):
    """Random sampling weights, 0 for the columns ``without``, beside row 1, which has relevant items only."""
    slate = sampled_slate(seed)
    weight = torch.rand(slate.label.shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)
    weight[:1, without] = weight[2:, without] = 0.0
    weight = torch.where(slate.mask, weight, 0.0)
    return replace(slate, weight=weight / weight.sum(-1, keepdim=True))


@pytest.mark.parametrize("without", [[], [0, 1, 2, 3], [4, 5, 6]], ids=["none", "relevant", "irrelevant"])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
@pytest.mark.parametrize("inner", INNER, ids=str)
def test_own_weights_may_leave_out_columns(inner, gamma, without):
    """Without its own comparison u may be below ℓ(0)/N, where f and f′ are constant."""
    oracle = SongOracle(gamma, **inner)
    loss = SONG(PAIRS, gamma, rank_offset=0.0, dtype=DOUBLE, **inner)
    assert run(loss, oracle, [weighted(seed, without) for seed in range(STEPS)], scale=0.7) < 1e-9
    held(loss, oracle)


@pytest.mark.parametrize("make", [lambda: SONG(1, 1.0, "exponential"), lambda: ListwiseCE(1), lambda: BSL(1)])
def test_a_column_without_weight_does_not_hide_the_others(make):
    """A score that exceeds all others by more than the range of exp, but has no weight, changes nothing."""
    slate = Slate.from_batch(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1, -1]]))
    slate = replace(slate, weight=torch.tensor([[0.5, 0.5, 0.0]]))
    found = []
    for high in (0.0, 500.0):
        scores = torch.tensor([[0.2, 0.3, high]], requires_grad=True)
        (value := make()(scores, slate)).backward()
        found.append(torch.cat([value.detach().view(1, 1), scores.grad], dim=1))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("make", [lambda: BSL(1), lambda: ListwiseCE(1), lambda: SONG(1, 1.0, "exponential")])
def test_an_infinite_score_is_not_remembered(make):
    loss = make()
    slate = Slate.from_batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1]]))
    assert not loss(torch.tensor([[0.0, torch.inf]]), slate).isfinite()
    assert loss.log_u.read().isnan().all()


@pytest.mark.parametrize("mode", ["theoretical", "practical"])
@pytest.mark.parametrize("inner", INNER[1:3], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 5, "source": "slate"},
        {"source": "periodic", "every": 2},
        {"form": "rank", "scale": 1e-4},
        {"implicit": "memory_before", "step": "gradient", "offset": None},
        {"k": 1000},
    ],
    ids=str,
)
def test_ksong_in_log_space_gives_the_papers_estimator(mode, inner, options):
    oracle = SongOracle(**{"gamma": 0.2, "k": 3, **inner, **options}, mode=mode)
    threshold = ThresholdOptions(source=oracle.source, every=oracle.every)
    form = PaperForm(selection=oracle.form, implicit=oracle.implicit, threshold_step=oracle.step)
    loss = KSONG(
        PAIRS,
        QUERIES,
        oracle.k,
        0.2,
        mode,
        oracle.offset,
        selector_scale=oracle.scale,
        threshold=threshold,
        form=form,
        dtype=DOUBLE,
        **inner,
    )
    assert run(loss, oracle, [sampled_slate(seed, k=oracle.k) for seed in range(STEPS)]) < 1e-9
    held(loss, oracle)
    if oracle.form == "bilevel":
        held_by_query(loss, oracle)


@pytest.mark.parametrize("make", [sampled_slate, full_slate])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
@pytest.mark.parametrize("activation", ["tanh", "atan", "relu"])
def test_psl_is_the_listwise_cross_entropy_of_its_activation(make, gamma, activation):
    oracle = SongOracle(gamma, surrogate=activation, temperature=0.3, outer="likelihood")
    loss = PSL(PAIRS, gamma, temperature=0.3, activation=activation, dtype=DOUBLE)
    assert run(loss, oracle, [make(seed) for seed in range(STEPS)]) < 1e-9
    held(loss, oracle)


@pytest.mark.parametrize("make", [sampled_slate, full_slate])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
@pytest.mark.parametrize("relevant_temperature", [None, 0.4])
def test_bsl_compares_with_irrelevant_items_only(make, gamma, relevant_temperature):
    factor = 1.0 if relevant_temperature is None else 0.7 / relevant_temperature
    of_bsl = {"outer": "likelihood", "rivals": "irrelevant", "factor": factor}
    oracle = SongOracle(gamma, surrogate="exponential", temperature=0.7, **of_bsl)
    loss = BSL(PAIRS, gamma, temperature=0.7, relevant_temperature=relevant_temperature, dtype=DOUBLE)
    assert run(loss, oracle, [make(seed) for seed in range(STEPS)]) < 1e-9


@pytest.mark.parametrize("mode", ["practical", "theoretical"])
@pytest.mark.parametrize("source", [{"source": "periodic", "every": 3}, {"source": "tracked"}, {"source": "slate"}])
def test_sl_at_k_weights_the_likelihood_by_the_selection(mode, source):
    own = {"surrogate": "exponential", "temperature": 0.6, "outer": "likelihood", "scale": 1 / 0.8}
    oracle = SongOracle(0.3, k=3, mode=mode, **own, **source)
    threshold = ThresholdOptions(**source)
    loss = SLatK(
        PAIRS,
        QUERIES,
        3,
        0.3,
        temperature=0.6,
        weight_temperature=0.8,
        mode=mode,
        threshold=threshold,
        dtype=DOUBLE,
    )
    assert run(loss, oracle, [sampled_slate(seed, k=3) for seed in range(STEPS + 4)]) < 1e-9
    held(loss, oracle)
    held_by_query(loss, oracle)


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_the_temperature_of_the_listwise_cross_entropy_divides_the_scores(temperature):
    plain, tempered = (
        ListwiseCE(PAIRS, 0.3, dtype=DOUBLE),
        ListwiseCE(PAIRS, 0.3, temperature=temperature, dtype=DOUBLE),
    )
    for seed in range(STEPS):
        slate = sampled_slate(seed)
        scores = draw(slate, seed).requires_grad_()
        divided = (scores.detach() / temperature).requires_grad_()
        (first := tempered(scores, slate)).backward()
        (second := plain(divided, slate)).backward()
        torch.testing.assert_close(first, second, rtol=1e-12, atol=0)
        torch.testing.assert_close(scores.grad, divided.grad / temperature, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("offset", [0.0, 16.0])
@pytest.mark.parametrize("inner", INNER, ids=str)
def test_on_whole_lists_the_gradient_is_that_of_the_smooth_ndcg(inner, offset):
    slate = full_slate(1)
    scores = (0.4 * draw(slate)).requires_grad_()
    value = SONG(64, gamma=1.0, rank_offset=offset, dtype=DOUBLE, **inner)(scores, slate)
    value.backward()
    objective = smooth_objective(slate, offset, inner["surrogate"], 1.0, temperature=inner.get("temperature", 1.0))
    assert float(value.detach()) == pytest.approx(objective(scores.detach()), rel=1e-12)
    torch.testing.assert_close(scores.grad, numeric_gradient(objective, scores.detach()), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: SONG(PAIRS, 0.1, "exponential", temperature=0.1, dtype=dtype),
        lambda dtype: SONG(PAIRS, 0.1, "exponential", temperature=0.1, rank_offset=0.0, form="paper", dtype=dtype),
        lambda dtype: KSONG(PAIRS, QUERIES, 3, 0.1, surrogate="exponential", temperature=0.1, dtype=dtype),
        lambda dtype: SLatK(PAIRS, QUERIES, 3, 0.1, temperature=0.1, dtype=dtype),
        lambda dtype: ListwiseCE(PAIRS, 0.1, temperature=0.1, dtype=dtype),
        lambda dtype: BSL(PAIRS, 0.1, temperature=0.1, relevant_temperature=0.2, dtype=dtype),
        lambda dtype: PSL(PAIRS, 0.1, temperature=0.1, dtype=dtype),
    ],
    ids=["song", "song-paper", "k-song", "sl-at-k", "listwise-ce", "bsl", "psl"],
)
def test_scores_of_any_size_give_finite_values_gradients_and_memory(make, dtype):
    loss = make(dtype)
    for seed, scale in enumerate([1.0, 1e4, 1e-3, 1e4, 0.0]):
        slate = sampled_slate(seed, k=loss.k)
        scores = (scale * draw(slate, seed).clamp(-1, 1)).to(dtype).requires_grad_()
        value = loss(scores, slate)
        value.backward()
        assert value.isfinite()
        assert scores.grad.isfinite().all()
        assert (loss.log_u.values > -1e6).sum() > 0
        assert loss.log_u.read().nan_to_num(0.0).isfinite().all()


def test_graded_gains_weigh_the_exponential_objective():
    """Two lists that differ in the grade of one relevant item only: its share of the gradient is that of its gain."""
    labels, scores = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.5, -0.5]], dtype=DOUBLE)
    gradients = {}
    for gain in ("exp2", "linear"):
        slate = Slate.from_batch(labels.double(), torch.tensor([0]), torch.tensor([[0, -1, -1]]), gain=gain)
        slate = replace(slate, ideal_dcg=torch.ones(1, dtype=DOUBLE))
        leaf = scores.clone().requires_grad_()
        SONG(1, 1.0, "exponential", rank_offset=0.0, dtype=DOUBLE)(leaf, slate).backward()
        gradients[gain] = leaf.grad
    torch.testing.assert_close(gradients["exp2"] * 2, gradients["linear"] * 3, rtol=1e-12, atol=0)


def test_the_moving_average_of_samples_approaches_the_sum_over_the_whole_list():
    relevance = Relevance.from_pairs([0, 0, 1, 1, 1], [3, 7, 1, 5, 20], num_items=60)
    scores = torch.randn(2, 60, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
    loss = SONG(relevance.num_pairs, 0.02, "exponential", temperature=0.8, dtype=DOUBLE)
    sampler = SlateSampler(relevance, 2, relevant=2, irrelevant=8, seed=1)
    read = []
    for epoch in range(900):
        for slate in sampler:
            loss(scores[slate.query].gather(1, slate.item), slate)
        if epoch >= 300:
            read.append(loss.log_u.read().exp())
    exact = []
    for query, item in [(0, 3), (0, 7), (1, 1), (1, 5), (1, 20)]:
        exact.append(sum(math.exp(float(s - scores[query, item]) / 0.8) for s in scores[query]) / 60)
    torch.testing.assert_close(torch.stack(read).mean(0), torch.tensor(exact, dtype=DOUBLE), rtol=0.03, atol=0)


def test_without_a_rival_bsl_is_zero_and_so_is_its_gradient():
    slate = Slate.from_batch(torch.tensor([[1.0, 2.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    scores = torch.tensor([[3.0, -1.0], [0.0, 0.0]], requires_grad=True)
    value = BSL()(scores, slate)
    value.backward()
    assert float(value) == pytest.approx(0.0, abs=1e-6)  # the second list: ln 1
    assert scores.grad[0].tolist() == [0.0, 0.0]
    assert scores.grad[1, 0] < 0 < scores.grad[1, 1]


def test_sl_at_k_has_a_cutoff_by_default_so_every_recipe_serves_it():
    assert SLatK(PAIRS, QUERIES).k == 20
