"""Every list loss against its formula in plain loops: value, gradient, masks, labels, batch axes, reductions."""

import math
from dataclasses import dataclass, field

import pytest
import torch
from tests.functional import oracles

from songrank import functional as F
from songrank.functional import lists
from songrank.functional.pairwise import _label_aware_ranks

GUMBEL_SAMPLES = 3


@dataclass(frozen=True)
class Loss:
    name: str
    call: object
    oracle: object
    options: dict = field(default_factory=dict)

    def __call__(self, scores, labels, **given):
        if self.call is F.gumbel_approx_ndcg_loss:
            given.setdefault("noise", noise_like(scores))
        return self.call(scores, labels, **self.options, **given)

    def one_list(self, scores, labels, at, noise):
        return self.oracle(scores, labels, at, noise, **self.options)


LOSSES = [
    Loss("ranknet", F.ranknet_loss, oracles.ranknet),
    Loss("ranknet-sigma", F.ranknet_loss, oracles.ranknet, {"sigma": 2.5}),
    Loss("lambdarank", F.lambdarank_loss, oracles.lambdarank),
    Loss("lambdarank-at-3", F.lambdarank_loss, oracles.lambdarank, {"k": 3, "sigma": 0.5}),
    Loss("lambdarank-linear", F.lambdarank_loss, oracles.lambdarank, {"gain": "linear"}),
    Loss("listnet", F.listnet_loss, oracles.listnet),
    Loss("softmax", F.softmax_loss, oracles.softmax),
    Loss("listmle", F.listmle_loss, oracles.listmle),
    Loss("approx-ndcg", F.approx_ndcg_loss, oracles.approx_ndcg),
    Loss("approx-ndcg-sharp", F.approx_ndcg_loss, oracles.approx_ndcg, {"temperature": 0.3, "gain": "linear"}),
    Loss("gumbel", F.gumbel_approx_ndcg_loss, oracles.gumbel_approx_ndcg),
    Loss("gumbel-scaled", F.gumbel_approx_ndcg_loss, oracles.gumbel_approx_ndcg, {"scale": 0.4, "temperature": 0.5}),
    Loss("neural-ndcg", F.neural_ndcg_loss, oracles.neural_ndcg),
    Loss("neural-ndcg-at-2", F.neural_ndcg_loss, oracles.neural_ndcg, {"k": 2, "temperature": 2.0, "gain": "linear"}),
    Loss("neural-ndcg-no-sinkhorn", F.neural_ndcg_loss, oracles.neural_ndcg, {"sinkhorn_iterations": 0}),
    Loss("neural-ndcg-one-sinkhorn", F.neural_ndcg_loss, oracles.neural_ndcg, {"sinkhorn_iterations": 1}),
    Loss("pirank", F.pirank_loss, oracles.pirank),
    Loss("pirank-at-2", F.pirank_loss, oracles.pirank, {"k": 2, "temperature": 0.5}),
    Loss("bce", F.bce_loss, oracles.bce),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def noise_like(scores):
    """Standard Gumbel noise [samples, …] that depends on nothing but the shape."""
    generator = torch.Generator().manual_seed(99)
    uniform = torch.rand((GUMBEL_SAMPLES, *scores.shape), generator=generator, dtype=torch.float64)
    return -torch.log(-torch.log(uniform))


def batch(*leading, length=6, seed=0):
    """Scores, graded and fractional labels, and a mask with holes; float64 with any leading axes."""
    generator = torch.Generator().manual_seed(seed)
    shape = (*leading, length)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64)
    grades = torch.tensor([0.0, 0.0, 0.5, 1.0, 1.0, 2.25, 3.0], dtype=torch.float64)
    labels = grades[torch.randint(0, len(grades), shape, generator=generator)]
    mask = torch.rand(shape, generator=generator) < 0.75
    mask[..., 0] = True
    return scores, labels, mask


def expected(loss, scores, labels, mask):
    """(value of each list, gradient of each list's value), by the loops; lists in the order of the leading axes."""
    noise = noise_like(scores)
    values, gradients = [], []
    for place in torch.cartesian_prod(*[torch.arange(size) for size in scores.shape[:-1]]).view(-1, scores.dim() - 1):
        place = tuple(place.tolist())
        there = mask[place].nonzero().flatten().tolist()
        row = [scores[place][index].item() for index in there]
        label = [labels[place][index].item() for index in there]
        draws = [[draw[place][index].item() for index in there] for draw in noise]
        gradient = [0.0] * scores.shape[-1]
        if there:
            values.append(loss.one_list(row, label, row, draws))
            slopes = oracles.central_difference(
                lambda x, label=label, row=row, draws=draws: loss.one_list(x, label, row, draws), row
            )
            for index, slope in zip(there, slopes, strict=True):
                gradient[index] = slope
        else:
            values.append(0.0)
        gradients.append(gradient)
    shape = scores.shape
    return (
        torch.tensor(values, dtype=torch.float64).view(shape[:-1]),
        torch.tensor(gradients, dtype=torch.float64).view(shape),
    )


def value_and_gradient(loss, scores, labels, **given):
    scores = scores.clone().requires_grad_()
    value = loss(scores, labels, **given)
    return value.detach(), torch.autograd.grad(value.sum(), scores)[0]


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


# ---- small lists, spelled out


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


# ---- ties


def test_lambdarank_puts_the_less_relevant_of_tied_items_first():
    # Labels (1, 0, 1) at one score: the irrelevant item ranks 1, the two relevant ones share (2 + 3)/2.
    scores = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    ideal = 1.0 + 1.0 / math.log2(3)
    delta = (1.0 - 1.0 / math.log2(3.5)) / ideal
    value = F.lambdarank_loss(scores, labels)
    assert value.item() == pytest.approx(2 * delta * math.log(2.0), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, scores)
    want = torch.tensor([[-delta / 2, 2 * delta / 2, -delta / 2]], dtype=torch.float64)
    torch.testing.assert_close(gradient, want, rtol=1e-12, atol=0.0)


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


def test_listmle_learns_no_order_among_equal_labels():
    scores = torch.tensor([[0.3, -1.0, 2.0, 0.5]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 1.0, 0.0, 1.0]], dtype=torch.float64)
    order = torch.tensor([3, 0, 2, 1])
    torch.testing.assert_close(F.listmle_loss(scores, labels), F.listmle_loss(scores[:, order], labels[:, order]))


# ---- the parts: NeuralSort, Sinkhorn, Gumbel noise


def test_neural_sort_gives_rows_that_sum_to_one_and_nothing_to_padding():
    scores, _, mask = batch(3, seed=9)
    matrix = F.neural_sort(scores, mask=mask, temperature=0.7)
    for row in range(3):
        there = mask[row].nonzero().flatten()
        want = torch.zeros(6, 6, dtype=torch.float64)
        values = oracles.neural_sort(scores[row, there].tolist(), 0.7)
        want[: len(there), there] = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(matrix[row], want, rtol=1e-10, atol=1e-14)


def test_neural_sort_at_a_low_temperature_sorts():
    scores = torch.tensor([0.5, 3.0, -1.0, 2.0], dtype=torch.float64)
    want = torch.eye(4, dtype=torch.float64)[[1, 3, 0, 2]]
    torch.testing.assert_close(F.neural_sort(scores, temperature=1e-3), want)


def test_gumbel_noise_of_scale_zero_changes_nothing():
    scores, labels, mask = batch(3, seed=10)
    plain = F.approx_ndcg_loss(scores, labels, mask=mask)
    torch.testing.assert_close(F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, scale=0.0, samples=2), plain)


def test_gumbel_noise_that_is_not_given_comes_from_torchs_generator():
    scores, labels, mask = batch(3, seed=11)
    torch.manual_seed(5)
    first = F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, samples=4)
    other = F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, samples=4)
    torch.manual_seed(5)
    again = F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, samples=4)
    assert first == again
    assert first != other


def test_gumbel_noise_of_another_shape_is_refused():
    scores, labels, _ = batch(3)
    with pytest.raises(ValueError, match="noise"):
        F.gumbel_approx_ndcg_loss(scores, labels, noise=torch.zeros(2, 3, 5))


def test_gumbel_of_uniform_numbers_is_minus_log_of_minus_log_and_finite_at_both_ends():
    from songrank.functional.approx_ndcg import gumbel

    uniform = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    want = torch.tensor([-math.log(-math.log(u)) for u in (0.1, 0.5, 0.9)], dtype=torch.float64)
    torch.testing.assert_close(gumbel(uniform), want, rtol=1e-12, atol=0.0)
    assert gumbel(torch.tensor([0.0, 1.0])).isfinite().all()


@pytest.mark.parametrize("length", [2, 5])
def test_neural_ndcg_has_a_finite_gradient_whatever_the_number_of_padded_columns(length):
    scores, labels, _ = batch(2, length=length, seed=12)
    want, want_gradient = value_and_gradient(LOSSES[12], scores, labels)
    for pad in (1, 2, 7):
        filled = torch.nn.functional.pad(scores, (0, pad))
        mask = torch.nn.functional.pad(torch.ones_like(scores, dtype=torch.bool), (0, pad))
        value, gradient = value_and_gradient(LOSSES[12], filled, torch.nn.functional.pad(labels, (0, pad)), mask=mask)
        torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(gradient[:, :length], want_gradient, rtol=1e-8, atol=1e-10)


# ---- comparing relevant items alone

BY_COLUMN = [
    loss for loss in LOSSES if loss.name.split("-")[0] in ("ranknet", "lambdarank", "approx", "gumbel", "softmax")
]
every_loss_by_column = pytest.mark.parametrize("loss", BY_COLUMN, ids=lambda loss: loss.name)


def columns_of(labels, mask, seed=0):
    """[..., L + 2]: each list's relevant columns in any order, one or two others, and −1 wherever there is room."""
    generator = torch.Generator().manual_seed(seed)
    length = labels.shape[-1]
    relevant = (labels > 0) & mask
    wanted = relevant | (torch.rand(labels.shape, generator=generator) < 0.3)
    every = torch.where(wanted, torch.arange(length), -1)
    every = torch.cat([every, torch.full((*labels.shape[:-1], 2), -1)], -1)
    return every.gather(-1, torch.rand(every.shape, generator=generator).argsort(-1))


@every_loss_by_column
@pytest.mark.parametrize("leading", [(4,), (2, 3)], ids=str)
def test_comparing_the_relevant_columns_alone_follows_the_formula(loss, leading):
    scores, labels, mask = batch(*leading, length=7, seed=13)
    mask[..., 0] = False  # where an entry to ignore would look, if it looked
    labels[..., 0] = 3.0
    value, gradient = value_and_gradient(
        loss, scores, labels, mask=mask, reduction="none", column=columns_of(labels, mask)
    )
    want, want_gradient = expected(loss, scores, labels, mask)
    torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient, rtol=1e-6, atol=1e-8)


@every_loss_by_column
def test_one_list_without_batch_axes_takes_columns_too(loss):
    scores, labels, mask = batch(1, seed=16)
    draws = {"noise": noise_like(scores)[:, 0]} if "gumbel" in loss.name else {}
    column = columns_of(labels, mask)[0]
    value, gradient = value_and_gradient(loss, scores[0], labels[0], mask=mask[0], column=column, **draws)
    want, want_gradient = expected(loss, scores, labels, mask)
    torch.testing.assert_close(value, want[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, want_gradient[0], rtol=1e-6, atol=1e-8)


@every_loss_by_column
def test_columns_that_hold_every_relevant_item_change_no_digit_that_matters(loss):
    scores, labels, mask = batch(40, length=23, seed=14)
    scores = scores.round(decimals=1)  # ties
    labels[:20] *= torch.rand(20, 23, generator=torch.Generator().manual_seed(0)) < 0.2
    want = value_and_gradient(loss, scores, labels, mask=mask, reduction="none")
    found = value_and_gradient(
        loss, scores, labels, mask=mask, reduction="none", column=columns_of(labels, mask, seed=1)
    )
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-14)


@every_loss_by_column
def test_columns_of_another_shape_or_type_are_refused(loss):
    scores, labels, mask = batch(3)
    column = columns_of(labels, mask)
    with pytest.raises(ValueError, match="column"):
        loss(scores, labels, mask=mask, column=column[:2])
    with pytest.raises(TypeError, match="column is torch.int32; expected type torch.int64"):
        loss(scores, labels, mask=mask, column=column.int())


@every_loss_by_column
@pytest.mark.parametrize("limit", [1, 100, 250])
def test_comparing_a_few_lists_at_a_time_changes_nothing(loss, limit, monkeypatch):
    scores, labels, mask = batch(2, 3, length=8, seed=15)
    column = columns_of(labels, mask)
    whole = [
        value_and_gradient(loss, scores, labels, mask=mask, reduction="none", column=given) for given in (None, column)
    ]
    monkeypatch.setattr(lists, "_IN_MEMORY", limit)
    parts = [
        value_and_gradient(loss, scores, labels, mask=mask, reduction="none", column=given) for given in (None, column)
    ]
    torch.testing.assert_close(parts, whole, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_label_aware_ranks_count_what_stands_above_and_half_of_what_is_alike(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-2, 3, (20, 17), generator=generator).double()
    scores = torch.where(scores == 0, torch.where(torch.rand(20, 17, generator=generator) < 0.5, 0.0, -0.0), scores)
    labels = torch.randint(0, 3, (20, 17), generator=generator).double()
    mask = torch.rand(20, 17, generator=generator) < 0.8
    found = _label_aware_ranks(torch.where(mask, scores, -math.inf), torch.where(mask, labels, math.inf))
    for row in range(20):
        there = mask[row].nonzero().flatten().tolist()
        for i in there:
            s, y = scores[row, i].item(), labels[row, i].item()
            others = [(scores[row, j].item(), labels[row, j].item()) for j in there if j != i]
            above = sum(1 for t, z in others if t > s or (t == s and z < y))
            assert found[row, i].item() == 1.0 + above + 0.5 * others.count((s, y))
