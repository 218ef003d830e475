"""Formulas of metrics at positions of relevant items, against plain loops."""

import math

import pytest
import torch

from songrank.metrics import spans as formulas


def spans_of(ranks, labels, size):
    rank, mask = torch.tensor([ranks]), torch.ones(1, len(ranks), dtype=torch.bool)
    label = torch.tensor([labels], dtype=torch.float64)
    return formulas.Spans(first=rank, last=rank, label=label, mask=mask, list_size=torch.tensor([size]))


@pytest.mark.parametrize("k", [None, 1, 3, 5])
@pytest.mark.parametrize(("ranks", "labels"), [([1, 4, 5], [1.0, 3.0, 2.0]), ([2], [1.0]), ([6, 3], [2.0, 1.0])])
def test_formulas_are_those_of_plain_loops(ranks, labels, k):
    size, cut = 6, k or 6
    found = spans_of(ranks, labels, size)
    within = sorted(rank for rank in ranks if rank <= cut)
    gain = dict(zip(ranks, [2**label - 1 for label in labels], strict=True))
    dcg = sum(gain[rank] / math.log2(rank + 1) for rank in within)
    ideal = sum(one / math.log2(at + 2) for at, one in enumerate(sorted(gain.values(), reverse=True)[:cut]))
    precision = sum((at + 1) / rank for at, rank in enumerate(within)) / len(ranks)
    wanted = {
        formulas.dcgs: dcg,
        formulas.ndcgs: dcg / ideal,
        formulas.reciprocal_ranks: 1 / within[0] if within else 0.0,
        formulas.average_precisions: precision,
        formulas.precisions: len(within) / cut,
        formulas.recalls: len(within) / len(ranks),
        formulas.hits: float(bool(within)),
    }
    for formula, value in wanted.items():
        assert formula(found, k).item() == pytest.approx(value), formula.__name__


def test_a_tied_item_gets_the_mean_discount_of_its_group():
    mask = torch.tensor([[True]])
    found = formulas.Spans(torch.tensor([[2]]), torch.tensor([[4]]), mask.double(), mask, torch.tensor([6]))
    assert formulas.dcgs(found).item() == pytest.approx(sum(1 / math.log2(rank + 1) for rank in (2, 3, 4)) / 3)
    assert formulas.recalls(found, 3).item() == pytest.approx(2 / 3)
