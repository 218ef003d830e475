"""SONG, K-SONG and SOLC against the paper's estimators in plain float64 loops, over several steps of state."""

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE
from songrank.losses.paper_form import PaperForm
from tests.losses.steps import PAIRS, QUERIES, STEPS, run, states
from tests.oracles.memory_losses import SolcOracle, SongOracle
from tests.slates import full_slate, sampled_slate


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
