"""SONG, K-SONG and SOLC against the paper's estimators in plain float64 loops, over several steps of state."""

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE
from songrank.losses.ksong import ThresholdOptions
from songrank.losses.paper_form import PaperForm
from tests.oracles.memory_losses import SolcOracle, SongOracle
from tests.slates import full_slate, sampled_slate

STEPS = 4
PAIRS = 64
QUERIES = 8


def run(loss, oracle, slates, scale=1.5):
    """Steps of both; compares value, gradient and state after each. Returns the largest relative error."""
    generator = torch.Generator().manual_seed(11)
    worst = 0.0
    for slate in slates:
        scores = scale * torch.randn(slate.label.shape, generator=generator, dtype=torch.float64)
        garbage = torch.where(slate.mask, scores, torch.full_like(scores, torch.nan)).requires_grad_()
        value = loss(garbage, slate)
        value.backward()
        expected, gradient = oracle(scores, slate)
        gradient = torch.tensor(gradient, dtype=torch.float64)
        error = (garbage.grad - gradient).norm() / gradient.norm()
        worst = max(worst, float(error), abs(float(value.detach()) - expected) / abs(expected))
    return worst


def states(loss, oracle):
    pairs = torch.tensor(sorted(oracle.u), dtype=torch.int64)
    tables = [(loss.u.read(pairs), oracle.u)]
    if oracle.k is not None and oracle.form == "bilevel":
        queries = torch.tensor(sorted(oracle.lam), dtype=torch.int64)
        tables += [(loss.threshold.read(queries), oracle.lam), (loss.curvature.read(queries), oracle.s)]
    for held, expected in tables:
        torch.testing.assert_close(
            held, torch.tensor([expected[row] for row in sorted(expected)], dtype=torch.float64), rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("make", [sampled_slate, full_slate])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 1.0},
        {"offset": None},
        {"offset": 16.0, "gamma": 0.3},
        {"lagged": True},
        {"estimator": "plain"},
        {"surrogate": "smooth_hinge", "margin": 1.5},
        {"surrogate": "logistic"},
        {"surrogate": "sigmoid"},
        {"margin": 3.0},
    ],
    ids=str,
)
def test_song_gives_the_papers_estimator(make, options):
    oracle = SongOracle(**{"gamma": 0.1, **options})
    loss = SONG(
        PAIRS,
        oracle.gamma,
        oracle.surrogate,
        oracle.margin,
        oracle.offset,
        form=PaperForm(lagged=oracle.lagged, estimator=oracle.estimator),
        dtype=torch.float64,
    )
    assert run(loss, oracle, [make(seed) for seed in range(STEPS)]) < 1e-9
    states(loss, oracle)


@pytest.mark.parametrize("mode", ["theoretical", "practical"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 5, "gamma_s": 0.5},
        {"implicit": "memory"},
        {"implicit": "memory", "gamma_s": 0.1, "rate": 0.1},
        {"implicit": "memory_before"},
        {"implicit": "memory_before", "gamma_s": 0.1, "rate": 0.1, "step": "gradient"},
        {"k": 1000},
        {"selector": "smooth_step", "scale": 0.7},
        {"step": "gradient", "rate": 0.5},
        {"centred": "zero", "tau2": 0.05},
        {"smoothing": "hinge", "tau1": 0.8, "tau2": 0.01},
        {"form": "rank", "scale": 0.05},
        {"estimator": "plain", "offset": None},
        {"epsilon": 0.01, "tau1": 0.5, "offset": 16.0},
        {"lagged": True, "margin": 2.0},
    ],
    ids=str,
)
def test_ksong_gives_the_papers_estimator(mode, options):
    oracle = SongOracle(**{"gamma": 0.2, "k": 3, **options}, mode=mode)
    loss = KSONG(
        PAIRS,
        QUERIES,
        oracle.k,
        oracle.gamma,
        mode,
        oracle.offset,
        surrogate=oracle.surrogate,
        margin=oracle.margin,
        selector=oracle.selector,
        selector_scale=oracle.scale,
        threshold=ThresholdOptions(oracle.rate, oracle.gamma_s, oracle.epsilon, oracle.tau1, oracle.tau2),
        form=PaperForm(
            lagged=oracle.lagged,
            estimator=oracle.estimator,
            selection=oracle.form,
            implicit=oracle.implicit,
            threshold_step=oracle.step,
            centre=oracle.centred,
            smoothing=oracle.smoothing,
        ),
        dtype=torch.float64,
    )
    assert run(loss, oracle, [sampled_slate(seed, k=oracle.k) for seed in range(STEPS)]) < 1e-9
    states(loss, oracle)


@pytest.mark.parametrize("make", [sampled_slate, full_slate])
@pytest.mark.parametrize("options", [{}, {"gamma": 1.0}, {"gamma": 0.7, "estimator": "plain"}], ids=str)
def test_solc_gives_the_papers_estimator_with_its_missing_factor(make, options):
    oracle = SolcOracle(**{"gamma": 0.1, **options})
    loss = ListwiseCE(PAIRS, oracle.gamma, form=PaperForm(estimator=oracle.estimator), dtype=torch.float64)
    assert run(loss, oracle, [make(seed) for seed in range(STEPS)]) < 1e-9
    pairs = torch.tensor(sorted(oracle.u), dtype=torch.int64)
    torch.testing.assert_close(
        loss.log_u.read(pairs).exp(),
        torch.tensor([oracle.u[int(p)] for p in pairs], dtype=torch.float64),
        rtol=1e-9,
        atol=0,
    )


@pytest.mark.parametrize("kind", ["song", "ksong", "solc"])
def test_own_sampling_weights_replace_the_strata(kind):
    generator = torch.Generator().manual_seed(5)
    slates = []
    for seed in range(STEPS):
        slate = sampled_slate(seed, k=3 if kind == "ksong" else None)
        weight = torch.where(slate.mask, torch.rand(slate.label.shape, generator=generator).double() + 0.1, 0.0)
        fields = {name: getattr(slate, name) for name in slate.__dataclass_fields__}
        slates.append(type(slate)(**{**fields, "weight": weight / weight.sum(-1, keepdim=True)}))
    if kind == "solc":
        loss, oracle = ListwiseCE(PAIRS, 0.3, dtype=torch.float64), SolcOracle(0.3)
    elif kind == "song":
        loss, oracle = SONG(PAIRS, 0.3, rank_offset=4.0, dtype=torch.float64), SongOracle(0.3, offset=4.0)
    else:
        loss, oracle = (
            KSONG(PAIRS, QUERIES, 3, 0.3, rank_offset=4.0, dtype=torch.float64),
            SongOracle(0.3, offset=4.0, k=3),
        )
    assert run(loss, oracle, slates) < 1e-9
