"""Ranks under the three policies for ties, against counting."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import functional as F
from songrank.functional.ranks import rank_span

few = settings(derandomize=True, max_examples=80, deadline=None)
SCORE = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0])
)


@st.composite
def masked_lists(draw):
    size = draw(st.integers(1, 10))
    scores = draw(st.lists(SCORE, min_size=size, max_size=size))
    return scores, draw(st.lists(st.booleans(), min_size=size, max_size=size))


def counted(scores, mask):
    """(first, last, place in a stable sort) of each item that is there; a NaN ranks as −∞ does."""
    keys = [-math.inf if math.isnan(score) else score for score in scores]
    there = [index for index, present in enumerate(mask) if present]
    result = {}
    for i in there:
        higher = sum(keys[j] > keys[i] for j in there)
        tied = sum(keys[j] == keys[i] for j in there)
        before = sum(keys[j] == keys[i] for j in there if j < i)
        result[i] = (higher + 1, higher + tied, higher + before + 1)
    return result


@few
@given(data=masked_lists())
def test_ranks_of_the_items_that_are_there_are_as_counted(data):
    scores, mask = data
    tensor, there = torch.tensor(scores, dtype=torch.float64), torch.tensor(mask)
    pessimistic = F.ranks(tensor, mask=there)
    average = F.ranks(tensor, mask=there, ties="average")
    stable = F.ranks(tensor, mask=there, ties="stable")
    first, last = rank_span(tensor, mask=there, ties="average")
    for index, (begin, end, place) in counted(scores, mask).items():
        assert pessimistic[index] == end
        assert average[index] == (begin + end) / 2
        assert stable[index] == place
        assert (first[index], last[index]) == (begin, end)


@few
@given(data=masked_lists(), ties=st.sampled_from(["pessimistic", "average", "stable"]))
def test_padding_stands_after_every_item(data, ties):
    scores, mask = data
    ranks = F.ranks(torch.tensor(scores), mask=torch.tensor(mask), ties=ties)
    there = sum(mask)
    for rank, present in zip(ranks.tolist(), mask, strict=True):
        assert (rank <= there) == present


def test_ranks_work_on_the_last_axis_of_any_batch():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randint(0, 4, (2, 3, 6), generator=generator).float()
    for ties, index in (("pessimistic", 1), ("stable", 2)):
        ranks = F.ranks(scores, ties=ties)
        assert ranks.dtype == torch.int64
        for a in range(2):
            for b in range(3):
                want = counted(scores[a, b].tolist(), [True] * 6)
                assert ranks[a, b].tolist() == [want[i][index] for i in range(6)]


def test_a_constant_scorer_never_looks_good():
    assert F.ranks(torch.zeros(4)).tolist() == [4, 4, 4, 4]
    assert F.ranks(torch.zeros(4), ties="average").tolist() == [2.5, 2.5, 2.5, 2.5]
    assert F.ranks(torch.full((4,), math.nan)).tolist() == [4, 4, 4, 4]


def test_a_nan_never_ranks_above_a_number():
    assert F.ranks(torch.tensor([math.nan, -1e30, math.inf, 0.0])).tolist() == [4, 3, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_ranks_are_the_same_in_every_precision_that_holds_the_scores(dtype):
    scores = torch.tensor([1.0, 2.0, -math.inf, 2.0, math.inf, math.nan]).to(dtype)
    assert F.ranks(scores).tolist() == [4, 3, 6, 3, 1, 6]


def test_an_unknown_policy_and_a_mask_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="ties"):
        F.ranks(torch.zeros(3), ties="optimistic")
    with pytest.raises(ValueError, match="mask has shape"):
        F.ranks(torch.zeros(3), mask=torch.ones(2, dtype=torch.bool))
