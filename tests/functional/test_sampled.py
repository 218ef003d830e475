"""gBCE, and softmax with logQ correction."""

import math
from itertools import combinations

import pytest
import torch

from songrank import functional as F
from tests.functional.list_loss_table import batch, value_and_gradient
from tests.oracles import formulas


def sizes(size, relevant, rows=1):
    return {"list_size": torch.full((rows,), size), "num_relevant": torch.full((rows,), relevant)}


@pytest.mark.parametrize("t", [0.0, 0.3, 0.75, 1.0])
def test_gbce_raises_the_probability_of_the_relevant_item_to_beta_as_in_the_paper(t):
    scores = [0.3, 1.2, -0.4, 2.0]  # one relevant item, 3 of 60 irrelevant ones
    alpha = 3 / 60
    beta = alpha * (t * (1 - 1 / alpha) + 1 / alpha)
    terms = [math.log((1 / (1 + math.exp(-scores[0]))) ** beta)]
    terms += [math.log(1 - 1 / (1 + math.exp(-score))) for score in scores[1:]]
    labels = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    found = F.gbce_loss(torch.tensor([scores], dtype=torch.float64), labels, t=t, **sizes(61, 1))
    assert found.item() == pytest.approx(-sum(terms) / 4, rel=1e-12)


def test_gbce_with_one_relevant_item_is_binary_cross_entropy_without_correction_or_sampling():
    scores, labels, mask = batch(5, length=7, seed=1)
    labels, mask[:, 3] = torch.zeros_like(labels), True
    labels[:, 3] = 2.0
    want = F.bce_loss(scores, labels, mask=mask, reduction="none")
    whole = F.gbce_loss(scores, labels, mask=mask, reduction="none")
    plain = F.gbce_loss(scores, labels, mask=mask, t=0.0, **sizes(500, 1, rows=5), reduction="none")
    torch.testing.assert_close(whole, want)
    torch.testing.assert_close(plain, want)


def test_full_calibration_gives_the_probability_of_training_without_sampling():
    """If every item is equally often the relevant one, training on whole lists ends at probability 1/N."""
    size, sampled = 20, 4
    scores = torch.full((1, 1 + sampled), math.log(1 / (size - 1)), dtype=torch.float64)  # σ(s) = 1/N
    labels = torch.zeros_like(scores)
    labels[0, 0] = 1.0
    _, gradient = value_and_gradient(F.gbce_loss, scores, labels, t=1.0, **sizes(size, 1))
    assert gradient.sum().item() == pytest.approx(0.0, abs=1e-15)
    _, uncorrected = value_and_gradient(F.gbce_loss, scores, labels, t=0.0, **sizes(size, 1))
    assert uncorrected.sum().item() < -0.1  # pulls the probability up: overconfidence


def test_gbce_of_nothing_but_relevant_items_pulls_them_up():
    scores = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    value, gradient = value_and_gradient(F.gbce_loss, scores, torch.ones(1, 2), **sizes(2, 2))
    assert value.item() == pytest.approx((math.log(2) + math.log(1 + math.exp(-1))) / 2, rel=1e-12)
    assert bool((gradient < 0).all())


def test_a_wrong_t_or_count_is_named():
    scores, labels = torch.zeros(2, 3), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"t is 1.5; expected a number in \[0, 1\]"):
        F.gbce_loss(scores, labels, t=1.5)
    for loss in (F.gbce_loss, F.sampled_softmax_loss):
        with pytest.raises(ValueError, match=r"list_size.shape is \[1\]; expected one count per list, \[2\]"):
            loss(scores, labels, list_size=torch.tensor([9]))
        with pytest.raises(ValueError, match=r"num_relevant.shape is \[3\]; expected one count per list, \[2\]"):
            loss(scores, labels, num_relevant=torch.tensor([9, 9, 9]))


def test_the_partition_function_of_samples_is_unbiased():
    relevant, irrelevant = [0.4, -1.0, 2.0, 1.1], [0.1, 0.7, -2.0, 3.0, 1.5]
    estimates = []
    for others in combinations(range(1, 4), 2):  # with the target, 3 of 4 relevant items
        for negatives in combinations(range(5), 2):
            scores = [relevant[0], *(relevant[at] for at in others), *(irrelevant[at] for at in negatives)]
            labels = [1.0, 1e-200, 1e-200, 0.0, 0.0]  # the cost of the target alone
            cost = F.sampled_softmax_loss(
                torch.tensor([scores], dtype=torch.float64), torch.tensor([labels], dtype=torch.float64), **sizes(9, 4)
            )
            estimates.append(math.exp(cost.item() + relevant[0]))
    want = sum(math.exp(score) for score in relevant + irrelevant)
    assert sum(estimates) / len(estimates) == pytest.approx(want, rel=1e-12)


def test_lists_that_are_whole_have_the_loss_of_softmax():
    scores, labels, mask = batch(6, length=9, seed=2)
    counts = {"list_size": mask.sum(-1), "num_relevant": ((labels > 0) & mask).sum(-1)}
    found = value_and_gradient(F.sampled_softmax_loss, scores, labels, mask=mask, reduction="none", **counts)
    want = value_and_gradient(F.softmax_loss, scores, labels, mask=mask, reduction="none")
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-14)


def test_custom_weights_follow_the_loops_and_weights_of_padding_are_not_read():
    scores, labels, mask = batch(4, length=8, seed=3)
    weight = torch.rand(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * mask
    weight = weight / weight.sum(-1, keepdim=True)
    given = {"weight": weight.masked_fill(~mask, math.nan), "list_size": mask.sum(-1) + 30}
    found, gradient = value_and_gradient(F.sampled_softmax_loss, scores, labels, mask=mask, reduction="none", **given)
    assert bool(gradient.isfinite().all())
    for row in range(4):
        there = mask[row].nonzero().flatten()
        one, label, own = (values[row, there].tolist() for values in (scores, labels, weight))
        want = formulas.sampled_softmax(one, label, None, None, unsampled=30, weight=own)
        assert found[row].item() == pytest.approx(want, rel=1e-12)
    with pytest.raises(ValueError, match="weight has shape"):
        F.sampled_softmax_loss(scores, labels, weight=weight[:2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("high", ["target", "other", "irrelevant", "padding"])
def test_scores_far_apart_cost_their_distance(high, dtype):
    scores = torch.zeros(1, 4, dtype=dtype)
    scores[0, ["target", "other", "irrelevant", "padding"].index(high)] = 1e4
    labels = torch.tensor([[1.0, 1e-30, 0.0, 0.0]], dtype=dtype)
    mask = torch.tensor([[True, True, True, False]])
    value, gradient = value_and_gradient(F.sampled_softmax_loss, scores, labels, mask=mask, **sizes(20, 5))
    want = {"target": 0.0, "other": 1e4 + math.log(4), "irrelevant": 1e4 + math.log(15), "padding": math.log(20)}
    assert value.item() == pytest.approx(want[high], rel=1e-6)
    assert bool(gradient.isfinite().all())


def test_columns_of_weight_zero_take_no_part():
    scores = torch.tensor([[0.0, 1.0, 50.0]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    weight = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    value, gradient = value_and_gradient(
        F.sampled_softmax_loss, scores, labels, weight=weight, list_size=torch.tensor([4])
    )
    assert value.item() == pytest.approx(math.log(2 + 2 * math.e), rel=1e-12)
    assert gradient[0, 2] == 0
