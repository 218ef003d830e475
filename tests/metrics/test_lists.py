"""Lists read in blocks of bounded size."""

import math
import re

import pytest
import torch

from songrank import metrics
from songrank.functional.ranks import TIES

ALL = {
    "dcg": metrics.dcg,
    "ndcg": metrics.ndcg,
    "mrr": metrics.mrr,
    "map": metrics.mean_average_precision,
    "precision": metrics.precision,
    "recall": metrics.recall,
    "hit_rate": metrics.hit_rate,
}

AVERAGEABLE = ("dcg", "ndcg", "precision", "recall")

GRID = [(name, ties) for name in ALL for ties in TIES if ties != "average" or name in AVERAGEABLE]

every_metric = pytest.mark.parametrize("name", ALL)

every_policy = pytest.mark.parametrize(("name", "ties"), GRID)


def tied_lists(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 6, shape, generator=generator).float()
    return scores, (torch.randint(0, 6, shape, generator=generator) - 2).clamp_min(0).float()


def same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-15, equal_nan=True)


@every_policy
def test_padding_changes_nothing(name, ties):
    scores, labels = tied_lists(20, 9)
    mask = torch.cat([torch.ones(20, 9), torch.zeros(20, 4)], 1).bool()
    padded = [torch.cat([x, torch.full((20, 4), filler)], 1) for x, filler in ((scores, torch.nan), (labels, -7.0))]
    place = torch.arange(13).repeat(20, 1) if ties == "stable" else torch.rand(20, 13).argsort(-1)
    padded = [x.gather(1, place) for x in padded]
    found = ALL[name](*padded, mask=mask.gather(1, place), k=4, ties=ties, reduction="none")
    same(found, ALL[name](scores, labels, k=4, ties=ties, reduction="none"))


@pytest.mark.parametrize(("name", "ties"), [case for case in GRID if case[1] != "stable"])
def test_the_order_of_items_in_memory_changes_nothing(name, ties):
    scores, labels = tied_lists(20, 9)
    order = torch.rand(20, 9, generator=torch.Generator().manual_seed(1)).argsort(-1)
    moved = ALL[name](scores.gather(1, order), labels.gather(1, order), k=4, ties=ties, reduction="none")
    same(moved, ALL[name](scores, labels, k=4, ties=ties, reduction="none"))


@every_policy
@pytest.mark.parametrize("k", [None, 3])
def test_lists_one_after_another_are_the_same_as_padded_lists(name, ties, k):
    scores, labels = tied_lists(30, 11)
    lengths = torch.arange(30) % 12
    mask = torch.arange(11) < lengths.unsqueeze(-1)
    ragged = ALL[name](scores[mask], labels[mask], lengths=lengths, k=k, ties=ties, reduction="none")
    same(ragged, ALL[name](scores, labels, mask=mask, k=k, ties=ties, reduction="none"))


@every_metric
def test_leading_axes_are_kept(name):
    scores, labels = tied_lists(2, 3, 5, 7)
    flat = ALL[name](scores.flatten(0, 2), labels.flatten(0, 2), reduction="none")
    same(ALL[name](scores, labels, reduction="none"), flat.reshape(2, 3, 5))
    assert ALL[name](scores[0, 0, 0], labels[0, 0, 0], reduction="none").shape == ()


@every_metric
def test_reductions_are_the_mean_and_the_sum_of_what_counts(name):
    scores, labels = tied_lists(8, 4, seed=4)
    labels[2] = 0.0
    each = ALL[name](scores, labels, reduction="none")
    assert each.isnan().tolist() == (labels.amax(-1) == 0).tolist()
    same(ALL[name](scores, labels), each[~each.isnan()].mean())
    same(ALL[name](scores, labels, reduction="sum"), each[~each.isnan()].sum())


@every_metric
@pytest.mark.parametrize(("empty", "value"), [("skip", math.nan), ("zero", 0.0), ("one", 1.0)])
def test_a_list_without_relevant_items_counts_as_asked(name, empty, value):
    scores, labels = torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    each = ALL[name](scores, labels, k=1, empty=empty, reduction="none")
    same(each, torch.tensor([value, 1.0]).double())
    expected = 1.0 if empty == "skip" else (1.0 + value) / 2
    assert float(ALL[name](scores, labels, k=1, empty=empty)) == expected


@every_metric
@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
def test_a_list_without_items_never_counts(name, empty):
    scores, labels = torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    mask = torch.tensor([[False, False], [True, True]])
    each = ALL[name](scores, labels, mask=mask, k=1, empty=empty, reduction="none")
    same(each, torch.tensor([math.nan, 1.0]).double())
    assert float(ALL[name](scores, labels, mask=mask, k=1, empty=empty)) == 1.0
    ragged = ALL[name](scores[0], labels[0], lengths=[0, 2, 0], k=1, empty=empty, reduction="none")
    same(ragged, torch.tensor([math.nan, 1.0, math.nan]).double())


@every_metric
def test_a_mean_over_nothing_is_nan(name):
    assert ALL[name](torch.zeros(0, 5), torch.zeros(0, 5)).isnan()
    assert ALL[name](torch.zeros(3, 0), torch.zeros(3, 0), empty="one").isnan()
    assert ALL[name](torch.zeros(0), torch.zeros(0), lengths=[]).isnan()
    assert ALL[name](torch.zeros(2, 5), torch.zeros(2, 5)).isnan()


@pytest.mark.parametrize("relevant", [1, 4, 9])
def test_a_constant_scorer_stands_at_the_end(relevant):
    labels = (torch.arange(10) < relevant).float()
    scores = torch.full((10,), 3.0)
    assert float(metrics.mrr(scores, labels)) == 0.1
    assert float(metrics.ndcg(scores, labels, k=9)) == 0.0
    assert float(metrics.hit_rate(scores, labels, k=9)) == 0.0
    ideal = sum(1 / math.log2(1 + place) for place in range(1, relevant + 1))
    assert float(metrics.ndcg(scores, labels)) == pytest.approx(relevant / math.log2(11) / ideal)
    assert float(metrics.mean_average_precision(scores, labels)) == pytest.approx(relevant / 10)


@every_policy
def test_only_the_order_of_the_scores_matters(name, ties):
    scores, labels = tied_lists(20, 9)
    expected = ALL[name](scores, labels, ties=ties, k=5)
    same(ALL[name](scores.to(torch.int64), labels.to(torch.int32), ties=ties, k=5), expected)
    same(ALL[name]((scores / 64 - 3).half(), labels.half(), ties=ties, k=5), expected)
    same(ALL[name]((scores.double() - 3) * 1e300, labels.double(), ties=ties, k=5), expected)


def test_infinite_scores_are_ranked_as_numbers_are():
    scores = torch.tensor([-math.inf, math.inf, 65504.0], dtype=torch.half)
    assert metrics.mrr(scores.repeat(3, 1), torch.eye(3), reduction="none").tolist() == pytest.approx([1 / 3, 1, 1 / 2])


def test_no_gradient_is_kept_and_nothing_is_written_to_the_input():
    scores, labels = tied_lists(4, 5)
    kept = scores.clone(), labels.clone()
    assert not metrics.ndcg(scores.requires_grad_(), labels).requires_grad
    assert torch.equal(scores, kept[0])
    assert torch.equal(labels, kept[1])


def test_a_gain_may_be_any_function_of_the_labels():
    scores, labels = tied_lists(6, 7)
    same(metrics.ndcg(scores, labels, gain=lambda y: y.exp2() - 1), metrics.ndcg(scores, labels))
    # An irrelevant item earns nothing, whatever the function gives a label of 0.
    same(
        metrics.dcg(scores, labels, gain=lambda y: y + 1), metrics.dcg(scores, labels, gain=lambda y: (y + 1) * (y > 0))
    )


@pytest.mark.parametrize("name", ["mrr", "map", "hit_rate"])
def test_averaged_ties_are_refused_where_they_are_not_a_mean_over_positions(name):
    with pytest.raises(ValueError, match=f"ties is 'average'; expected 'pessimistic' or 'stable' for {name}"):
        ALL[name](torch.zeros(2), torch.ones(2), ties="average")


ONE = torch.ones(2, 3)

BAD = [
    ({"k": 0}, ValueError, "k is 0; expected a whole number of at least 1"),
    ({"k": 2.5}, TypeError, "k is 2.5; expected a whole number"),
    ({"ties": "random"}, ValueError, "ties is 'random'; expected one of 'pessimistic'"),
    ({"empty": "drop"}, ValueError, "empty is 'drop'; expected one of 'skip', 'zero', 'one'"),
    ({"reduction": "median"}, ValueError, "reduction is 'median'; expected one of 'mean'"),
    ({"labels": torch.ones(2, 4)}, ValueError, "labels has shape [2, 4]; expected the shape of scores, [2, 3]"),
    ({"mask": torch.ones(1, 3).bool()}, ValueError, "mask has shape [1, 3]; expected the shape of scores, [2, 3]"),
    ({"mask": ONE}, TypeError, "mask is torch.float32; expected a bool tensor"),
    ({"scores": [[1.0]]}, TypeError, "scores is 'list'; expected a tensor"),
    ({"scores": ONE[0, 0], "labels": ONE[0, 0]}, ValueError, "scores is 'a scalar'"),
    ({"lengths": [6]}, ValueError, "scores is 'of shape [2, 3]'; expected one dimension with lengths"),
    ({"lengths": [6], "mask": ONE.bool()}, ValueError, "mask and lengths is 'both given'; expected one of them"),
]

RAGGED = [
    ([2, 2], ValueError, "lengths is 'a total of 4'; expected a total equal to the number of scores, 3"),
    ([4, -1], ValueError, "lengths[1] is -1; expected a number of at least 0"),
    ([1.5, 1.5], TypeError, "expected whole numbers"),
    ([[3]], ValueError, "lengths is 'of shape [1, 1]'; expected one dimension"),
]


@every_metric
@pytest.mark.parametrize(("changed", "error", "message"), BAD)
def test_bad_arguments_are_named_with_what_was_expected(name, changed, error, message):
    arguments = {"scores": ONE, "labels": ONE} | changed
    with pytest.raises(error, match=re.escape(message)):
        ALL[name](**arguments)


@pytest.mark.parametrize(("lengths", "error", "message"), RAGGED)
def test_bad_lengths_are_named_with_what_was_expected(lengths, error, message):
    with pytest.raises(error, match=re.escape(message)):
        metrics.ndcg(torch.ones(3), torch.ones(3), lengths=lengths)


@every_metric
@pytest.mark.parametrize(
    ("of", "bad", "message"),
    [
        ("scores", math.nan, "scores of list 4, item 2 is nan; expected a number"),
        ("labels", math.nan, "labels of list 4, item 2 is nan; expected a finite number of at least 0"),
        ("labels", -1.0, "labels of list 4, item 2 is -1.0; expected a finite number of at least 0"),
        ("labels", math.inf, "labels of list 4, item 2 is inf"),
    ],
)
def test_bad_values_are_named_with_their_place(name, of, bad, message):
    arguments = {"scores": torch.zeros(2, 3, 4), "labels": torch.ones(2, 3, 4)}
    arguments[of][1, 1, 2] = bad
    with pytest.raises(ValueError, match=re.escape(message)):
        ALL[name](**arguments)
    mask = torch.ones(2, 3, 4).bool()
    mask[1, 1, 2] = False
    assert ALL[name](**arguments, mask=mask).isfinite()
    with pytest.raises(ValueError, match=re.escape(message)):
        ALL[name](*(x.flatten() for x in arguments.values()), lengths=[4] * 6)


def test_labels_too_large_for_the_gain_are_refused_only_where_there_is_a_gain():
    scores, labels = torch.tensor([2.0, 1.0]), torch.tensor([2000.0, 0.0])
    with pytest.raises(ValueError, match="labels is 'as large as 2000'; expected labels with finite gain"):
        metrics.ndcg(scores, labels)
    assert float(metrics.ndcg(scores, labels, gain="linear")) == 1.0
    assert float(metrics.mrr(scores, labels)) == 1.0
