"""Listwise cross-entropy with a memory (SOLC) against plain loops."""

import pytest
import torch

from songrank import ListwiseCE
from songrank.losses.paper_form import PaperForm
from tests.losses.steps import PAIRS, STEPS, run
from tests.oracles.memory_losses import SolcOracle
from tests.slates import full_slate, sampled_slate


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
