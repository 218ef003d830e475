"""K-SONG against Algorithm 2 in plain loops."""

import pytest
import torch

from songrank import KSONG
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from tests.losses.steps import PAIRS, QUERIES, STEPS, run, states
from tests.oracles.memory_losses import SongOracle
from tests.slates import sampled_slate


@pytest.mark.parametrize("mode", ["theoretical", "practical"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 5, "gamma_s": 0.5},
        {"implicit": "memory"},
        {"implicit": "memory", "gamma_s": 0.1, "rate": 0.1},
        {"implicit": "memory_before"},
        {"implicit": "regression"},
        {"implicit": "regression", "k": 5, "gamma_s": 0.1, "estimator": "plain"},
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
