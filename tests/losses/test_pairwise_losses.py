"""Losses over pairs without memory, against their formulas in plain loops."""

from dataclasses import replace

import pytest
import torch

from songrank.losses import BPR, LambdaLoss, LambdaRank, RankNet
from songrank.losses.registry import LOSSES
from tests.losses.loss_table import full_slate, sampled_slate, scores_for
from tests.losses.one_loss import check_formula
from tests.oracles import formulas

CASES = [
    ("ranknet", formulas.ranknet, {}),
    ("ranknet", formulas.ranknet, {"sigma": 2.5}),
    ("bpr", formulas.bpr, {}),
    ("bpr", formulas.bpr, {"sigma": 2.5}),
    ("lambdarank", formulas.lambdarank, {}),
    ("lambdarank", formulas.lambdarank, {"sigma": 0.5}),
    ("lambdaloss", formulas.lambda_loss, {}),
    ("lambdaloss", formulas.lambda_loss, {"sigma": 0.5, "mu": 2.0}),
    ("lambdaloss", formulas.lambda_loss, {"k": 2}),
]


@pytest.mark.parametrize(("name", "oracle", "options"), CASES)
def test_the_loss_is_the_mean_of_its_formula_over_lists(name, oracle, options):
    check_formula(name, oracle, options)


def test_each_is_registered_under_its_name():
    found = {name: LOSSES[name].__name__ for name in dict.fromkeys(name for name, _, _ in CASES)}
    assert found == {
        "ranknet": "RankNet",
        "bpr": "BPR",
        "lambdarank": "LambdaRank",
        "lambdaloss": "LambdaLoss",
    }


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("name", ["ranknet", "bpr", "lambdarank", "lambdaloss"])
def test_a_wrong_option_is_named(name, value):
    with pytest.raises(ValueError, match="^sigma is "):
        LOSSES[name](sigma=value)


def test_bpr_takes_the_weights_of_a_slate():
    slate = sampled_slate()
    (scores,) = scores_for(slate, steps=1)
    weight = torch.rand(slate.label.shape, generator=torch.Generator().manual_seed(0)) * slate.mask
    weight = weight / weight.sum(-1, keepdim=True)
    total = 0.0
    for row, share in enumerate((1.0, 0.5, 2.0)):
        there = slate.mask[row].nonzero().flatten()
        parts = [values[row, there].tolist() for values in (scores, slate.label, weight)]
        total += share / 3.5 * formulas.bpr(*parts[:2], None, None, weight=parts[2])
    assert BPR()(scores, replace(slate, weight=weight)).item() == pytest.approx(total, rel=1e-6)
    assert BPR()(scores, slate).item() != pytest.approx(total, rel=1e-3)


def test_lambda_loss_has_lambdarank_as_a_part():
    slate = full_slate()
    (scores,) = scores_for(slate, steps=1)
    assert torch.equal(LambdaLoss(mu=0.0)(scores, slate), LambdaRank()(scores, slate))
    one, two, three = (LambdaLoss(mu=mu)(scores, slate) for mu in (1.0, 2.0, 3.0))
    torch.testing.assert_close(three - two, two - one)
    assert one > LambdaRank()(scores, slate)


def test_bpr_of_one_level_of_relevance_is_ranknet():
    slate = full_slate()
    binary = replace(slate, label=(slate.label > 0).float())
    (scores,) = scores_for(slate, steps=1)
    torch.testing.assert_close(BPR()(scores, slate), RankNet()(scores, binary))
