"""How a slate stands for the full list: the weights of the strata, by loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.functional import list_weights, rival_weights

few = settings(derandomize=True, max_examples=60, deadline=None)


@st.composite
def slates(draw):
    """Labels and mask of one row, with N and N⁺ of a full list that could have given it."""
    relevant, irrelevant = draw(st.integers(0, 4)), draw(st.integers(0, 5))
    padding = draw(st.integers(0, 3))
    if relevant + irrelevant == 0:
        relevant = 1
    grades = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=relevant, max_size=relevant))
    columns = [(grade, True) for grade in grades] + [(0.0, True)] * irrelevant
    columns += [(draw(st.sampled_from([0.0, 2.0])), False) for _ in range(padding)]
    columns = draw(st.permutations(columns))
    more = draw(st.integers(0, 50)) if relevant >= 2 else 0
    num_relevant = relevant + more
    size = num_relevant + (irrelevant + draw(st.integers(0, 1000)) if irrelevant else 0)
    return [label for label, _ in columns], [there for _, there in columns], size, num_relevant


def tensors(labels, mask, size, num_relevant):
    counts = (
        torch.tensor([float(size)], dtype=torch.float64),
        torch.tensor([float(num_relevant)], dtype=torch.float64),
    )
    return torch.tensor([labels], dtype=torch.float64), torch.tensor([mask]), *counts


@few
@given(data=slates())
def test_list_weights_are_the_share_of_each_stratum_over_what_was_sampled_of_it(data):
    labels, mask, size, num_relevant = data
    sampled_relevant = sum(there and label > 0 for label, there in zip(labels, mask, strict=True))
    sampled_irrelevant = sum(there and label == 0 for label, there in zip(labels, mask, strict=True))
    found = list_weights(*tensors(*data))[0].tolist()
    for weight, label, there in zip(found, labels, mask, strict=True):
        if not there:
            assert weight == 0.0
        elif label > 0:
            assert weight == pytest.approx(num_relevant / size / sampled_relevant, rel=1e-12)
        else:
            assert weight == pytest.approx((size - num_relevant) / size / sampled_irrelevant, rel=1e-12)
    assert sum(found) == pytest.approx(1.0, rel=1e-12)


@few
@given(data=slates(), values=st.lists(st.floats(0, 10), min_size=12, max_size=12), at_zero=st.floats(0.1, 4))
def test_rival_weights_give_the_unbiased_estimate_of_the_design(data, values, at_zero):
    # ĝ_i = (1/N)[ℓ(0) + (N⁺ − 1)·mean over the other sampled relevant + N⁻·mean over the sampled irrelevant]
    labels, mask, size, num_relevant = data
    column, own = rival_weights(*tensors(*data))
    relevant = [i for i, (label, there) in enumerate(zip(labels, mask, strict=True)) if there and label > 0]
    irrelevant = [i for i, (label, there) in enumerate(zip(labels, mask, strict=True)) if there and label == 0]
    for i in relevant:
        losses = list(values[: len(labels)])
        losses[i] = at_zero
        want = at_zero
        others = [losses[j] for j in relevant if j != i]
        if others:
            want += (num_relevant - 1) * sum(others) / len(others)
        if irrelevant:
            want += (size - num_relevant) * sum(losses[j] for j in irrelevant) / len(irrelevant)
        found = sum(w * loss for w, loss in zip(column[0].tolist(), losses, strict=True)) + own.item() * at_zero
        assert found == pytest.approx(want / size, rel=1e-9, abs=1e-12)


@few
@given(data=slates())
def test_what_item_i_meets_weighs_one_in_all(data):
    column, own = rival_weights(*tensors(*data))
    if data[-1] > 0:
        assert column.sum().item() + own.item() == pytest.approx(1.0, rel=1e-9)


def test_a_full_list_weighs_every_item_alike_and_needs_no_correction():
    labels = torch.tensor([[2.0, 0.0, 1.0, 0.0, 0.5]], dtype=torch.float64)
    everything = torch.ones_like(labels, dtype=torch.bool)
    five, three = torch.tensor([5.0], dtype=torch.float64), torch.tensor([3.0], dtype=torch.float64)
    fifth = torch.full((1, 5), 1.0 / 5.0, dtype=torch.float64)
    torch.testing.assert_close(list_weights(labels, everything, five, three), fifth)
    column, own = rival_weights(labels, everything, five, three)
    torch.testing.assert_close(column, fifth)
    torch.testing.assert_close(own, torch.zeros(1, 1, dtype=torch.float64))


def test_an_only_relevant_item_meets_itself_through_the_correction_alone():
    labels = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    everything = torch.ones_like(labels, dtype=torch.bool)
    four, one = torch.tensor([4.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64)
    column, own = rival_weights(labels, everything, four, one)
    assert column.tolist() == [[0.25, 0.0, 0.25, 0.25]]
    assert own.tolist() == [[0.25]]


def test_each_row_is_weighed_by_its_own_counts_and_a_mask_may_be_shared():
    labels = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    sizes, relevant = torch.tensor([10.0, 50.0], dtype=torch.float64), torch.tensor([4.0, 1.0], dtype=torch.float64)
    want = [[4 / 10 / 2, 4 / 10 / 2, 6 / 10 / 1, 0.0], [49 / 50 / 2, 1 / 50 / 1, 49 / 50 / 2, 0.0]]
    found = list_weights(labels, mask, sizes, relevant)
    torch.testing.assert_close(found, torch.tensor(want, dtype=torch.float64))
    column, own = rival_weights(labels, mask, sizes, relevant)
    want = [[3 / 10 / 1, 3 / 10 / 1, 6 / 10 / 1, 0.0], [49 / 50 / 2, 0.0, 49 / 50 / 2, 0.0]]
    torch.testing.assert_close(column, torch.tensor(want, dtype=torch.float64))
    torch.testing.assert_close(own, torch.tensor([[1 / 10 - 3 / 10], [1 / 50]], dtype=torch.float64))


def test_the_plain_estimator_is_the_mean_over_the_slate():
    labels = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    size, relevant = torch.tensor([100.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64)
    third = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(list_weights(labels, mask, size, relevant, estimator="plain"), third)
    column, own = rival_weights(labels, mask, size, relevant, estimator="plain")
    torch.testing.assert_close(column, third)
    assert own.tolist() == [[0.0]]


def test_own_weights_are_taken_as_they_are_except_at_padding():
    labels = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    weight = torch.tensor([[0.2, 0.8, torch.nan]], dtype=torch.float64)
    size, relevant = torch.tensor([9.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64)
    assert list_weights(labels, mask, size, relevant, weight=weight).tolist() == [[0.2, 0.8, 0.0]]
    column, own = rival_weights(labels, mask, size, relevant, weight=weight)
    assert column.tolist() == [[0.2, 0.8, 0.0]]
    assert own.tolist() == [[0.0]]


def test_a_row_of_padding_has_no_weights_and_no_nan():
    labels, mask = torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.bool)
    one, none = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    assert list_weights(labels, mask, one, none).tolist() == [[0.0, 0.0, 0.0]]
    column, own = rival_weights(labels, mask, one, none)
    assert column.tolist() == [[0.0, 0.0, 0.0]]
    assert own.isfinite().all()
