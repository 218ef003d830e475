"""Bins by quantiles, and their means with intervals, against what numpy and scipy find."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from songrank.analysis.report.bins import bin_values, query_sizes, size_ranges


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(1, 9))
def test_each_size_is_in_exactly_one_bin_and_no_bin_is_empty(sizes, count):
    ranges = size_ranges(torch.tensor(sizes), count)
    assert len(ranges) <= count
    assert all(sum(first <= size <= last for first, last in ranges) == 1 for size in sizes)
    assert all(any(first <= size <= last for size in sizes) for first, last in ranges)
    assert ranges == sorted(ranges)


def test_equal_sizes_are_never_parted():
    assert size_ranges(torch.tensor([1, 1, 1, 2, 3, 9]), 3) == [(1, 1), (2, 2), (3, 9)]
    bins = bin_values(torch.tensor([[0.0, 0.5, 1.0, torch.nan]]), torch.tensor([3, 3, 8, 8]), count=2)
    assert [(one.first, one.last, one.queries, one.mean) for one in bins] == [(3, 3, 2, 0.25), (8, 8, 1, 1.0)]


def test_distinct_sizes_are_shared_out_evenly():
    ranges = size_ranges(torch.randperm(80) * 3, 8)
    assert [(last - first) // 3 + 1 for first, last in ranges] == [10] * 8


def test_means_and_intervals_are_students():
    rng = np.random.default_rng(0)
    sizes, values = rng.integers(1, 50, 300), rng.random(300)
    values[::7] = np.nan
    counted = ~np.isnan(values)
    total = 0
    for found in bin_values(torch.tensor(values)[None], torch.tensor(sizes)):
        inside = values[counted & (sizes >= found.first) & (sizes <= found.last)]
        interval = stats.t.interval(0.95, len(inside) - 1, inside.mean(), stats.sem(inside))
        assert (found.mean, found.low, found.high) == pytest.approx((inside.mean(), *interval))
        assert found.queries == len(inside)
        total += len(inside)
    assert total == counted.sum()


def test_another_seed_that_differs_widens_the_interval():
    values = torch.rand(40, generator=torch.Generator().manual_seed(1)).double()
    sizes = torch.ones(40, dtype=torch.long)
    (same,) = bin_values(torch.stack([values, values]), sizes)
    (other,) = bin_values(torch.stack([values - 0.2, values + 0.2]), sizes)
    assert same.mean == pytest.approx(other.mean)
    assert other.high - other.low > 2 * (same.high - same.low)


def test_one_query_has_no_interval_and_no_query_no_bin():
    (found,) = bin_values(torch.tensor([[0.5]]), torch.tensor([3]))
    assert math.isnan(found.low)
    assert bin_values(torch.tensor([[math.nan]]), torch.tensor([3])) == []


def test_sizes_are_those_of_the_task(finished):
    expected = {"recommendation": "number of training items", "search": "list length"}
    expected["labelling"] = "number of relevant labels"
    for task, run in finished.items():
        what, sizes = query_sizes(run.dataset, "test")
        part = run.dataset["test"]
        assert what == expected[task]
        if task == "recommendation":
            part = run.dataset["train"]
        entries = [part.label[a:b] for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)]
        assert sizes.tolist() == [len(one) if task == "search" else int((one > 0).sum()) for one in entries]
