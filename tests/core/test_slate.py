"""The slate: shapes are checked when it is made, values when asked."""

from dataclasses import replace

import pytest
import torch

from songrank import Slate
from tests.slates import full_slate, sampled_slate


def test_from_batch_takes_counts_and_ideal_dcg_from_the_labels():
    labels = torch.tensor([[2.0, 0.0, 1.0, 3.0], [1.0, 1.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    slate = Slate.from_batch(labels, torch.tensor([5, 3]), mask=mask, k=1)
    assert slate.list_size.tolist() == [3, 4]
    assert slate.num_relevant.tolist() == [2, 2]
    assert slate.ideal_dcg.tolist() == [3.0, 1.0]
    assert slate.pair is None
    assert slate.active.tolist() == [[True, False, True, False], [True, True, False, False]]


def test_columns_are_the_first_ones_unless_given():
    assert torch.equal(sampled_slate(0).column, torch.arange(4).expand(4, 4))


def test_whole_numbers_do_as_labels_of_a_batch():
    assert Slate.from_batch(torch.tensor([[1, 0]]), torch.tensor([0])).label.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": torch.zeros(3, dtype=torch.int64)}, r"slate.query has shape \[3\]; expected \[B\], here \[4\]"),
        (
            {"item": torch.zeros(4, 2, dtype=torch.int64)},
            r"slate.item has shape \[4, 2\]; expected \[B, L\] or \[1, L\]",
        ),
        ({"mask": torch.ones(4, 11)}, "slate.mask is torch.float32; expected dtype torch.bool"),
        (
            {"label": torch.zeros(4, 11, dtype=torch.int64)},
            "slate.label is torch.int64; expected a floating-point dtype",
        ),
        ({"label": torch.zeros(11)}, r"slate.label is torch.Size\(\[11\]\); expected a tensor of shape \[B, L\]"),
        ({"pair": torch.zeros(4, 3)}, "slate.pair|slate.column"),
        ({"pair": torch.zeros(4, 4)}, "slate.pair is torch.float32; expected dtype torch.int64"),
        ({"column": torch.zeros(4, 2, dtype=torch.int64)}, "slate.column has shape"),
        ({"list_size": torch.ones(2)}, "slate.list_size has shape"),
        ({"weight": torch.ones(4, 2)}, "slate.weight has shape"),
        ({"row_weight": torch.ones(2)}, "slate.row_weight has shape"),
        ({"k": 0}, "slate.k is 0; expected a whole number of at least 1"),
        ({"gain": "cubic"}, "gain is 'cubic'; expected one of 'exp2', 'linear'"),
        ({"label": torch.zeros(4, 0)}, "expected at least one column"),
    ],
)
def test_wrong_shapes_and_types_raise_at_once(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        replace(sampled_slate(0), **change)


def altered(name, at, value):
    slate = sampled_slate(0)
    tensor = getattr(slate, name).clone()
    tensor[at] = value
    return replace(slate, **{name: tensor})


@pytest.mark.parametrize(
    ("slate", "message"),
    [
        (altered("label", (2, 0), -1.0), r"slate row 2 \(query 2\) has labels that are negative or not finite"),
        (altered("label", (2, 0), torch.inf), "labels that are negative or not finite"),
        (altered("num_relevant", 2, 10_000), r"row 2 .* more relevant items \(num_relevant\) than list_size"),
        (altered("num_relevant", 0, 2), "but fewer than two are sampled"),
        (altered("list_size", 1, 1000), r"query 1\) has irrelevant items, but none are sampled"),
        (altered("list_size", 2, int(sampled_slate(0).num_relevant[2]) + 3), "more irrelevant columns than list_size"),
        (altered("pair", (0, 1), 9), r"query 0\) has a pair with a padding or irrelevant column"),
        (altered("pair", (2, 0), int(sampled_slate(0).pair[3, 0])), "slate.pair has duplicates"),
        (altered("query", 2, 3), "slate.query has duplicates"),
        (
            altered("ideal_dcg", 3, 0.0),
            r"query 3\) has relevant items but an ideal_dcg that is",
        ),
        (altered("column", (0, 3), 99), "slate.column is 'out of range'"),
        (altered("ideal_dcg", 3, torch.inf), "ideal_dcg that is not positive and finite"),
        (altered("row_weight", 1, -1.0), r"query 1\) has a row_weight that is negative or not finite"),
        (altered("row_weight", 1, torch.nan), "row_weight that is negative or not finite"),
        (replace(sampled_slate(0), weight=torch.ones(4, 11)), "sampling weights that do not sum to 1"),
    ],
)
def test_checking_the_values_names_the_query(slate, message):
    with pytest.raises(ValueError, match=message):
        slate.check()


def test_a_sound_slate_passes_its_check():
    for seed in range(5):
        sampled_slate(seed).check()
        full_slate(seed).check()


def test_from_batch_checks_values_unless_told_not_to():
    labels = torch.tensor([[-1.0, 1.0]])
    with pytest.raises(ValueError, match="negative"):
        Slate.from_batch(labels, torch.tensor([0]))
    Slate.from_batch(labels, torch.tensor([0]), validate=False)
    with pytest.raises(ValueError, match="a pair with a padding or irrelevant column"):
        Slate.from_batch(torch.tensor([[0.0, 1.0]]), torch.tensor([0]), torch.tensor([[3, 4]]))
    with pytest.raises(ValueError, match=r"mask has shape \[1, 3\]; expected \[B, L\] or \[1, L\]"):
        Slate.from_batch(torch.zeros(1, 2), torch.tensor([0]), mask=torch.ones(1, 3, dtype=torch.bool))


def test_from_batch_names_what_is_of_the_wrong_type():
    with pytest.raises(TypeError, match="labels is 'ndarray'; expected a tensor"):
        Slate.from_batch(torch.zeros(1, 2).numpy(), torch.tensor([0]))
    with pytest.raises(TypeError, match="mask is torch.int64; expected dtype torch.bool"):
        Slate.from_batch(torch.zeros(1, 2), torch.tensor([0]), mask=torch.ones(1, 2, dtype=torch.int64))


def test_moving_a_slate_moves_every_tensor():
    moved = sampled_slate(0).to("meta")
    assert all(getattr(moved, name).is_meta for name in ("query", "item", "label", "mask", "pair", "row_weight"))


def test_the_repr_gives_sizes_instead_of_tensors():
    assert repr(Slate.from_batch(torch.ones(2, 7), torch.arange(2))) == "Slate(2 queries, 7 items and no pairs, cpu)"
    assert repr(sampled_slate(0, k=3)) == "Slate(4 queries, 11 items and 4 pairs each, k=3, cpu)"
