"""Gains, discounts, ideal DCG, and the term of the NDCG objective with its slope, against loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import functional as F
from tests.oracles import formulas as oracles


def test_gains_are_two_to_the_label_minus_one_or_the_label_or_what_a_function_says():
    labels = torch.tensor([0.0, 0.5, 1.0, 4.0], dtype=torch.float64)
    want = torch.tensor([0.0, 2**0.5 - 1, 1.0, 15.0], dtype=torch.float64)
    torch.testing.assert_close(F.gains(labels), want, rtol=1e-14, atol=0.0)
    assert F.gains(labels, "linear").equal(labels)
    assert F.gains(labels, lambda y: 3.0 * y).tolist() == [0.0, 1.5, 3.0, 12.0]
    with pytest.raises(ValueError, match="gain"):
        F.gains(labels, "cubic")


def test_discounts_are_one_over_the_binary_logarithm_of_one_plus_the_rank():
    want = [1.0, 1.0 / math.log2(3), 0.5, 1.0 / math.log2(11)]
    found = F.discounts(torch.tensor([1.0, 2.0, 3.0, 10.0], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor(want, dtype=torch.float64), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("gain", ["exp2", "linear"])
@pytest.mark.parametrize("k", [None, 1, 3, 5, 50])
def test_ideal_dcg_is_that_of_the_labels_sorted(gain, k):
    generator = torch.Generator().manual_seed(4)
    labels = torch.randint(0, 9, (2, 3, 5), generator=generator).double() / 2.0
    mask = torch.rand(2, 3, 5, generator=generator) < 0.6
    mask[0, 0] = False
    garbage = torch.where(mask, labels, torch.full_like(labels, math.nan))
    found, masked = F.ideal_dcg(labels, k=k, gain=gain), F.ideal_dcg(garbage, mask=mask, k=k, gain=gain)
    for a in range(2):
        for b in range(3):
            whole = labels[a, b].tolist()
            assert found[a, b].item() == pytest.approx(oracles.ideal_dcg(whole, k, gain), rel=1e-12)
            there = labels[a, b][mask[a, b]].tolist()
            assert masked[a, b].item() == pytest.approx(oracles.ideal_dcg(there, k, gain), rel=1e-12)


def test_ideal_dcg_takes_a_function_as_gain():
    labels = torch.tensor([1.0, 3.0, 0.0, 2.0], dtype=torch.float64)
    want = 9.0 / math.log2(2) + 4.0 / math.log2(3)
    assert F.ideal_dcg(labels, k=2, gain=lambda y: y * y).item() == pytest.approx(want, rel=1e-14)


def test_ideal_dcg_is_zero_where_nothing_is_relevant():
    assert F.ideal_dcg(torch.zeros(2, 3)).tolist() == [0.0, 0.0]


def test_ideal_dcg_of_labels_in_half_precision_is_not_itself_rounded_to_half_precision():
    labels = torch.tensor([[2.0] * 100 + [1.0] * 200])  # whole grades are exact in bfloat16
    want = oracles.ideal_dcg(labels[0].tolist())
    assert F.ideal_dcg(labels).item() == pytest.approx(want, rel=1e-6)
    assert F.ideal_dcg(labels.bfloat16()).item() == pytest.approx(want, rel=1e-6)


def test_k_below_one_is_refused():
    with pytest.raises(ValueError, match="k is 0"):
        F.ideal_dcg(torch.ones(3), k=0)


few = settings(derandomize=True, max_examples=60, deadline=None)
terms = {
    "g": st.floats(1e-3, 5.0),
    "label": st.sampled_from([0.0, 0.5, 1.0, 3.0, 4.0]),
    "size": st.integers(1, 5000),
    "ideal": st.floats(0.5, 100.0),
    "offset": st.sampled_from([0.0, 0.5, 8.0, 64.0]),
}


def term(g, label, size, ideal, offset):
    return (1.0 - 2.0**label) / (ideal * math.log2(size * g + 1.0 + offset))


def as_tensors(g, label, size, ideal, offset):
    pair = (torch.tensor(g, dtype=torch.float64), torch.tensor(2.0**label - 1.0, dtype=torch.float64))
    return pair, {"list_size": float(size), "ideal_dcg": ideal, "rank_offset": offset}


@few
@given(**terms)
def test_the_ndcg_term_follows_the_formula(g, label, size, ideal, offset):
    (g_tensor, gain), options = as_tensors(g, label, size, ideal, offset)
    want = term(g, label, size, ideal, offset)
    assert F.ndcg_term(g_tensor, gain, **options).item() == pytest.approx(want, rel=1e-12)


@few
@given(**terms)
def test_the_slope_of_the_ndcg_term_is_its_derivative_and_never_negative(g, label, size, ideal, offset):
    (g_tensor, gain), options = as_tensors(g, label, size, ideal, offset)
    slope = F.ndcg_term_slope(g_tensor, gain, **options).item()
    step = 1e-5 * g
    want = (term(g + step, label, size, ideal, offset) - term(g - step, label, size, ideal, offset)) / (2.0 * step)
    assert slope == pytest.approx(want, rel=1e-5, abs=1e-12)
    assert slope >= 0.0


def test_the_default_rank_offset_is_the_square_root_of_the_list():
    assert F.default_rank_offset(torch.tensor([16.0, 2500.0])).tolist() == [4.0, 50.0]
