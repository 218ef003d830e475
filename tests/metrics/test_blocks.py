"""Lists read in blocks of bounded size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.metrics.blocks import read_lists


@pytest.mark.parametrize("ragged", [False, True])
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=12), cells=st.integers(1, 40))
def test_every_list_is_in_one_block_and_blocks_are_bounded(ragged, lengths, cells):
    total = sum(lengths) if ragged else 5 * len(lengths)
    scores = torch.rand(total) if ragged else torch.rand(len(lengths), 5)
    lists = read_lists(scores, torch.ones_like(scores), lengths=lengths if ragged else None)
    seen = []
    for row, spans in lists.blocks("pessimistic", cells):
        seen += row.tolist()
        assert spans.last.numel() <= max(cells, spans.last.shape[-1])
        assert spans.last.numel() == row.shape[0] * spans.last.shape[-1]
        if ragged:
            assert spans.list_size.tolist() == [lengths[i] for i in row.tolist()]
    assert sorted(seen) == [i for i, length in enumerate(lengths) if length > 0 or not ragged]


def test_one_long_list_does_not_pad_many_short_ones():
    lengths = torch.full((100_000,), 3)
    lengths[50_000] = 1_245
    scores = torch.rand(int(lengths.sum()), generator=torch.Generator().manual_seed(0))
    lists = read_lists(scores, torch.ones_like(scores), lengths=lengths)
    cells = sum(spans.last.numel() for _, spans in lists.blocks("pessimistic"))
    assert cells <= lengths.sum() + 2**17
