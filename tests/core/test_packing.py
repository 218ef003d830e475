"""Packed histories: every position has one place, bins are contiguous, and little is padding."""

import pytest
import torch

from songrank.core.packing import pack_by_length, pack_in_bins, rounded_up

LENGTHS = {
    "short": torch.arange(40) % 9 + 1,
    "long tail": torch.randint(1, 12, (256,), generator=torch.Generator().manual_seed(0)).index_fill(
        0, torch.tensor([3, 77]), 201
    ),
    "one": torch.tensor([1]),
    "equal": torch.full((17,), 201),
}


def check(packing, lengths):
    """Each history has its positions in a row, within one bin, and nothing overlaps."""
    bins, at = [], 0
    for group in packing.groups:
        bins += [(at + number * group.width, at + (number + 1) * group.width) for number in range(group.bins)]
        at += group.positions
    assert packing.history.shape == (at,)
    for number, (start, length) in enumerate(zip(packing.start.tolist(), lengths.tolist(), strict=True)):
        assert (packing.history == number).nonzero().squeeze(1).tolist() == list(range(start, start + length))
        inside = [first <= start and start + length <= last for first, last in bins]
        assert sum(inside) == 1
        assert packing.shared or start in [first for first, _ in bins]
    assert int((packing.history >= 0).sum()) == int(lengths.sum())


@pytest.mark.parametrize("name", LENGTHS)
def test_each_history_has_a_bin_of_about_its_length(name):
    lengths = LENGTHS[name]
    packing = pack_by_length(lengths)
    check(packing, lengths)
    assert packing.history.shape[0] <= 1.25 * int(lengths.sum())
    assert not packing.shared


@pytest.mark.parametrize("name", LENGTHS)
def test_bins_are_shared_and_few_sizes_occur(name):
    lengths = LENGTHS[name]
    packing = pack_in_bins(lengths, width=208)
    check(packing, lengths)
    (group,) = packing.groups
    assert group.width == 208
    assert group.bins == rounded_up(group.bins)
    assert pack_in_bins(lengths, 208, fewest=40).groups[0].bins == 40


def test_short_histories_fill_their_bins():
    lengths = LENGTHS["long tail"]
    bins = pack_in_bins(lengths, 208).groups[0].bins
    assert bins <= rounded_up(-(-int(lengths.sum()) // 208) + 1)


def test_sizes_are_few_and_at_most_an_eighth_is_padding():
    sizes = range(1, 5000)
    found = [rounded_up(size) for size in sizes]
    assert all(size <= up <= size * 1.125 for size, up in zip(sizes, found, strict=True))
    assert len(set(found)) < 100
