"""Likelihood losses without memory, against their formulas in plain loops and against the loss with memory."""

from dataclasses import replace

import pytest
import torch

from songrank import Relevance, SlateSampler
from songrank.losses import GBCE, ListwiseCE, SampledSoftmax, SoftmaxCE
from songrank.losses.registry import LOSSES
from tests.losses.loss_table import full_slate, sampled_slate, scores_for
from tests.losses.one_loss import check_formula
from tests.oracles import formulas

CASES = [
    ("softmax", formulas.softmax, {}),
    ("sampled-softmax", formulas.sampled_softmax, {}),
    ("bce", formulas.bce, {}),
    ("gbce", formulas.gbce, {}),
    ("listnet", formulas.listnet, {}),
    ("listmle", formulas.listmle, {}),
]
SHARES = (1.0 / 3.5, 0.5 / 3.5, 2.0 / 3.5)  # of the queries of sampled_slate


@pytest.mark.parametrize(("name", "oracle", "options"), CASES)
def test_the_loss_is_the_mean_of_its_formula_over_lists(name, oracle, options):
    check_formula(name, oracle, options)


def test_each_is_registered_under_its_name():
    found = {name: LOSSES[name].__name__ for name in dict.fromkeys(name for name, _, _ in CASES)}
    assert found == {
        "softmax": "SoftmaxCE",
        "sampled-softmax": "SampledSoftmax",
        "bce": "PointwiseBCE",
        "gbce": "GBCE",
        "listnet": "ListNet",
        "listmle": "ListMLE",
    }


@pytest.mark.parametrize("t", [-0.1, 1.1, float("nan")])
def test_a_wrong_calibration_is_named(t):
    with pytest.raises(ValueError, match=r"^t is .*; expected a number in \[0, 1\]"):
        GBCE(t=t)


@pytest.mark.parametrize(
    ("name", "oracle", "options"),
    [
        ("gbce", formulas.gbce, {}),
        ("gbce", formulas.gbce, {"t": 0.2}),
        ("sampled-softmax", formulas.sampled_softmax, {}),
    ],
)
def test_a_slate_says_how_many_items_its_lists_have(name, oracle, options):
    slate = sampled_slate()
    (scores,) = scores_for(slate, steps=1)
    total = 0.0
    for row, share in enumerate(SHARES):
        there = slate.mask[row].nonzero().flatten()
        one, label = (values[row, there].tolist() for values in (scores, slate.label))
        unsampled = int(slate.list_size[row]) - len(one)
        relevant = int(slate.num_relevant[row]) - sum(1 for value in label if value > 0)
        total += share * oracle(one, label, None, None, unsampled=unsampled, unsampled_relevant=relevant, **options)
    assert LOSSES[name](**options)(scores, slate).item() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("own", [False, True], ids=["strata", "own weights"])
@pytest.mark.parametrize("make", [full_slate, sampled_slate])
def test_sampled_softmax_is_the_warm_up_without_memory(make, own):
    slate = make()
    slate = replace(slate, label=(slate.label > 0).float())
    if own:
        weight = torch.rand(slate.label.shape, generator=torch.Generator().manual_seed(0)).double() * slate.mask
        slate = replace(slate, weight=weight / weight.sum(-1, keepdim=True))
    for scores in scores_for(slate, scale=3.0):
        found, want = [], []
        for loss, result in ((SampledSoftmax(), found), (ListwiseCE(0, gamma=1.0, dtype=torch.float64), want)):
            leaf = scores.clone().requires_grad_()
            value = loss(leaf, slate)
            result += [value.detach(), *torch.autograd.grad(value, leaf)]
        torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-13)


def test_sampled_softmax_of_whole_lists_is_softmax():
    slate = full_slate()
    (scores,) = scores_for(slate, steps=1)
    torch.testing.assert_close(SampledSoftmax()(scores, slate), SoftmaxCE()(scores, slate), rtol=1e-12, atol=0.0)


def test_samples_of_a_catalogue_estimate_the_softmax_of_the_catalogue():
    """Up to the bias of a logarithm, about −Var(Z) / 2Z²."""
    relevance = Relevance.from_pairs(query=[0], item=[7], num_items=300)
    scores = torch.randn(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    want = torch.logsumexp(scores, 0) - scores[7]
    sampler = SlateSampler(relevance, 1, relevant=1, irrelevant=60, seed=0)
    loss, plain, found, uncorrected = SampledSoftmax(), SoftmaxCE(), [], []
    for _ in range(400):  # epochs of one slate
        for slate in sampler:
            found.append(loss(scores[slate.item], slate))
            uncorrected.append(plain(scores[slate.item], slate))
    assert torch.stack(found).mean().item() == pytest.approx(want.item(), abs=0.03)
    assert torch.stack(uncorrected).mean().item() < want.item() - 1.0
