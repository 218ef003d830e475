"""Every list loss against its formula in plain loops: value, gradient, masks, labels, batch axes, reductions."""

import math

import pytest
import torch

from songrank import functional as F
from tests.functional.list_loss_table import LOSSES, batch, every_loss, expected, noise_like, value_and_gradient
from tests.oracles import formulas as oracles


@every_loss
def test_value_and_gradient_of_each_list_follow_the_formula(loss):
    scores, labels, _ = batch(4, length=5)
    everything = torch.ones_like(scores, dtype=torch.bool)
    value, gradient = value_and_gradient(loss, scores, labels, reduction="none")
    want, want_gradient = expected(loss, scores, labels, everything)
    torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient, rtol=1e-6, atol=1e-8)


@every_loss
def test_masked_items_take_no_part_and_get_no_gradient(loss):
    scores, labels, mask = batch(2, 3, seed=1)
    mask[1, 2] = False
    labels[0, 1] = 0.0
    labels[1, 0] = 1.0
    value, gradient = value_and_gradient(loss, scores, labels, mask=mask, reduction="none")
    want, want_gradient = expected(loss, scores, labels, mask)
    torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient, rtol=1e-6, atol=1e-8)
    assert (gradient[~mask] == 0).all()


@every_loss
def test_reductions_are_the_mean_over_lists_that_hold_an_item_and_the_sum(loss):
    scores, labels, mask = batch(2, 2, length=4, seed=2)
    mask[0, 1] = False
    lists, slopes = expected(loss, scores, labels, mask)
    held = 3
    mean, mean_gradient = value_and_gradient(loss, scores, labels, mask=mask)
    total, total_gradient = value_and_gradient(loss, scores, labels, mask=mask, reduction="sum")
    torch.testing.assert_close(mean, lists.sum() / held, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(total, lists.sum(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(mean_gradient, slopes / held, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(total_gradient, slopes, rtol=1e-6, atol=1e-8)


@every_loss
def test_one_list_without_batch_axes_gives_a_scalar(loss):
    scores, labels, mask = batch(1, seed=3)
    want, want_gradient = expected(loss, scores, labels, mask)
    value, gradient = value_and_gradient(
        loss,
        scores[0],
        labels[0],
        mask=mask[0],
        **({"noise": noise_like(scores)[:, 0]} if "gumbel" in loss.name else {}),
    )
    assert value.shape == ()
    torch.testing.assert_close(value, want[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient[0], rtol=1e-6, atol=1e-8)


@every_loss
def test_whatever_stands_at_padding_is_never_seen(loss):
    scores, labels, mask = batch(3, seed=4)
    clean = value_and_gradient(loss, scores, labels, mask=mask, reduction="none")
    for garbage in (math.nan, math.inf, -math.inf, 1e30):
        dirty_scores = torch.where(mask, scores, torch.full_like(scores, garbage))
        dirty_labels = torch.where(mask, labels, torch.full_like(labels, garbage))
        dirty = value_and_gradient(loss, dirty_scores, dirty_labels, mask=mask, reduction="none")
        torch.testing.assert_close(dirty, clean, rtol=0.0, atol=0.0)


@every_loss
def test_nothing_to_learn_from_gives_zero_and_a_live_graph(loss):
    scores, labels, mask = batch(2, seed=5)
    value, gradient = value_and_gradient(loss, scores, labels, mask=torch.zeros_like(mask))
    assert value == 0.0
    assert (gradient == 0).all()


@every_loss
def test_a_nan_that_is_really_there_is_not_hidden(loss):
    scores, labels, _ = batch(2, seed=6)
    labels[:, 0] = 2.0
    labels[:, 1] = 0.0
    scores[0, 0] = math.nan
    value = loss(scores, labels, reduction="none")
    assert value[0].isnan()
    assert value[1].isfinite()


@every_loss
def test_half_precision_is_computed_in_float32(loss):
    scores, labels, mask = batch(3, seed=7)
    rough = scores.bfloat16()
    value, gradient = value_and_gradient(loss, rough, labels, mask=mask)
    want, want_gradient = value_and_gradient(loss, rough.float(), labels, mask=mask)
    assert (value.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(value, want)
    torch.testing.assert_close(gradient.float(), want_gradient, rtol=2**-7, atol=1e-6)


@every_loss
def test_wrong_shapes_and_reductions_are_refused_by_name(loss):
    scores, labels, mask = batch(3)
    with pytest.raises(ValueError, match="labels has shape"):
        loss(scores, labels[:, :-1])
    with pytest.raises(ValueError, match="mask has shape"):
        loss(scores, labels, mask=mask[:, :-1])
    with pytest.raises(ValueError, match="reduction"):
        loss(scores, labels, reduction="median")


def softplus(x):
    return math.log(1.0 + math.exp(x))


def sigma(x):
    return 1.0 / (1.0 + math.exp(-x))


IDEAL = 3.0 / math.log2(2) + 1.0 / math.log2(3)  # of the labels (0, 2, 1)

SPELLED_OUT = [
    # scores (1, 0, 2), labels (0, 2, 1): the pairs are (2nd, 1st), (2nd, 3rd), (3rd, 1st)
    (F.ranknet_loss, {}, (softplus(1) + softplus(2) + softplus(-1)) / 3),
    (
        F.lambdarank_loss,
        {},
        3 * (1 / math.log2(3) - 1 / math.log2(4)) / IDEAL * softplus(1)
        + 2 * (1 / math.log2(2) - 1 / math.log2(4)) / IDEAL * softplus(2)
        + 1 * (1 / math.log2(2) - 1 / math.log2(3)) / IDEAL * softplus(-1),
    ),
    (
        F.lambdarank_loss,
        {"k": 1},  # only pairs with the item on top; Z is 3
        2 * (1 - 0) / 3 * softplus(2) + 1 * (1 - 0) / 3 * softplus(-1),
    ),
    (F.bpr_loss, {}, (softplus(1) + softplus(-1)) / 2),
    (
        F.lambda_loss,  # ranks 2, 3, 1: the pairs are 1, 2 and 1 apart
        {"mu": 5.0},
        3 * (1 / math.log2(3) - 1 / math.log2(4) + 5 * (1 / math.log2(2) - 1 / math.log2(3))) / IDEAL * softplus(1)
        + 2 * (1 / math.log2(2) - 1 / math.log2(4) + 5 * (1 / math.log2(3) - 1 / math.log2(4))) / IDEAL * softplus(2)
        + 1 * (1 / math.log2(2) - 1 / math.log2(3) + 5 * (1 / math.log2(2) - 1 / math.log2(3))) / IDEAL * softplus(-1),
    ),
    (
        F.lambda_loss,  # ρ at the top alone; δ of all pairs, over 1 − 1/log2(1 + the lower rank); Z is 3
        {"k": 1},
        3 * 10 * (1 - 1 / math.log2(3)) / (1 - 1 / math.log2(4)) / 3 * softplus(1)
        + 2 * (1 + 10 * (1 / math.log2(3) - 1 / math.log2(4)) / (1 - 1 / math.log2(4))) / 3 * softplus(2)
        + 1 * (1 + 10 * (1 - 1 / math.log2(3)) / (1 - 1 / math.log2(3))) / 3 * softplus(-1),
    ),
    (
        F.listnet_loss,
        {},
        math.log(math.e + 1 + math.e**2) - (1 * 1 + math.e**2 * 0 + math.e * 2) / (1 + math.e**2 + math.e),
    ),
    (F.softmax_loss, {}, math.log(math.e + 1 + math.e**2) - (2 * 0 + 1 * 2) / 3),
    (
        F.listmle_loss,
        {},
        (math.log(math.e + 1 + math.e**2) - 0 + math.log(math.e + math.e**2) - 2 + math.log(math.e) - 1) / 3,
    ),
    (
        F.approx_ndcg_loss,
        {},
        -(3 / math.log2(2 + sigma(1) + sigma(2)) + 1 / math.log2(2 + sigma(-1) + sigma(-2))) / IDEAL,
    ),
    (F.bce_loss, {}, (softplus(1) + softplus(0) + softplus(-2)) / 3),
    (F.gbce_loss, {}, ((softplus(0) + softplus(-2)) / 2 + softplus(1)) / 2),
    (
        F.gbce_loss,  # one of 5 irrelevant items: α = 0.2, β = 1 − 0.75 · 0.8
        {"list_size": torch.tensor([7]), "num_relevant": torch.tensor([2])},
        (0.4 * (softplus(0) + softplus(-2)) / 2 + softplus(1)) / 2,
    ),
    (F.sampled_softmax_loss, {}, math.log(math.e + 1 + math.e**2) - (2 * 0 + 1 * 2) / 3),
    (
        F.sampled_softmax_loss,  # the irrelevant item stands for 6, the other relevant one for 3
        {"list_size": torch.tensor([10]), "num_relevant": torch.tensor([4])},
        (2 * math.log(6 * math.e + 1 + 3 * math.e**2) + math.log(6 * math.e + 3 + math.e**2) - 2) / 3,
    ),
    # NeuralSort's logits for (1, 0, 2): Σ|s_j − s_k| = (2, 3, 3); row 1: 2s − A = (0, −3, 1), row 2: −A = (−2, −3, −3)
    (
        F.pirank_loss,
        {"k": 1},
        -(3 * math.exp(-3) + 1 * math.exp(1)) / (math.exp(0) + math.exp(-3) + math.exp(1)) / 3,
    ),
    (
        F.neural_ndcg_loss,
        {"k": 1, "sinkhorn_iterations": 0},
        -(3 * math.exp(-3) + 1 * math.exp(1)) / (math.exp(0) + math.exp(-3) + math.exp(1)) / 3,
    ),
]


@pytest.mark.parametrize(("call", "options", "want"), SPELLED_OUT, ids=lambda part: getattr(part, "__name__", None))
def test_a_list_of_three_gives_the_arithmetic(call, options, want):
    scores = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64)
    labels = torch.tensor([[0.0, 2.0, 1.0]], dtype=torch.float64)
    assert call(scores, labels, **options).item() == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(
    "loss", [row for row in LOSSES if row.name not in ("listnet", "listmle", "bce")], ids=lambda loss: loss.name
)
def test_a_list_without_relevant_items_costs_nothing(loss):
    scores, labels, _ = batch(2, seed=8)
    value, gradient = value_and_gradient(loss, scores, torch.zeros_like(labels), reduction="none")
    assert (value == 0).all()
    assert (gradient == 0).all()


@pytest.mark.parametrize("call", [F.approx_ndcg_loss, F.neural_ndcg_loss, F.pirank_loss])
def test_a_list_ranked_perfectly_and_far_apart_has_an_ndcg_loss_of_minus_one(call):
    scores = torch.tensor([[0.0, 200.0, 100.0]], dtype=torch.float64)
    labels = torch.tensor([[0.0, 2.0, 1.0]], dtype=torch.float64)
    assert call(scores, labels).item() == pytest.approx(-1.0, abs=1e-12)


@every_loss
def test_tied_scores_follow_the_formula_too(loss):
    scores = torch.tensor([[1.0, 0.0, 1.0, 0.0, 1.0, -2.0]], dtype=torch.float64)
    labels = torch.tensor([[2.0, 1.0, 0.0, 1.0, 2.0, 0.0]], dtype=torch.float64)
    row, label = scores[0].tolist(), labels[0].tolist()
    draws = noise_like(scores)[:, 0].tolist()
    value, gradient = value_and_gradient(loss, scores, labels)
    assert value.item() == pytest.approx(loss.one_list(row, label, row, draws), rel=1e-10)
    # At a kink central differences give the middle of the two one-sided slopes, as |x|′(0) = 0 does, to first order.
    slopes = oracles.central_difference(lambda x: loss.one_list(x, label, row, draws), row)
    torch.testing.assert_close(gradient[0], torch.tensor(slopes, dtype=torch.float64), rtol=1e-5, atol=3e-6)
