r"""Exact metrics of ranked lists, as functions of scores and labels.

All have the signature ``fn(scores, labels, *, k=None, mask=None, lengths=None, ties=…, empty=…, reduction=…)``:

* **Lists** are the last axis of ``scores`` and ``labels``, with any leading axes and an optional ``mask`` (False for
  padding); with ``lengths`` [Q] they are concatenated in 1-D tensors, as in a LETOR file.
* **Relevant** items have a label above 0. ``k`` is the number of positions that count; None for the whole list.
* **Ties**. ``"pessimistic"``: the rank of an item is the number of items that score at least as
  high, the end of its tied group. ``"stable"``: input order. ``"average"``: the mean over all orders of tied items.
* **Empty** lists, without a relevant item. ``"skip"``: excluded from the mean. ``"zero"``,
  ``"one"``: counted as 0 or 1. The mean over no list is NaN. A list without items is padding and is never counted.
* Metrics are computed in float64, without gradients. A NaN score and a negative or NaN label raise ``ValueError``.

>>> import torch
>>> scores = torch.tensor([[3.0, 2.0, 1.0], [0.1, 0.2, 0.3]])
>>> labels = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0]])
>>> mrr(scores, labels, mask=torch.tensor([[True, True, True], [True, False, False]]), reduction="none")
tensor([0.5000, 1.0000], dtype=torch.float64)
>>> mrr(scores.flatten(), labels.flatten(), lengths=[4, 2], reduction="none")     # the same scores, other lists
tensor([0.5000,    nan], dtype=torch.float64)
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from torch import Tensor

from songrank.core.checks import check_choice
from songrank.core.gains import Gain
from songrank.core.processes import ALONE, Processes
from songrank.functional.lists import REDUCTIONS
from songrank.metrics.blocks import read_lists
from songrank.metrics.evaluation import Evaluation, reduce_queries
from songrank.metrics.names import Metric, check_policies, parse_metrics


class ListOptions(TypedDict, total=False):
    """Options of all list metrics, described in the module docstring."""

    k: int | None
    mask: Tensor | None
    lengths: Tensor | Sequence[int] | None
    ties: str
    empty: str
    reduction: str


def dcg(scores: Tensor, labels: Tensor, *, gain: Gain = "exp2", **options: Unpack[ListOptions]) -> Tensor:
    r"""DCG@k = Σ_{rank_i ≤ k} gain(y_i) / log₂(1 + rank_i), with gain 2^y − 1.

    With ``ties="average"`` tied items get the mean discount of their group, 0 beyond k (as in scikit-learn's
    ``dcg_score``, with ``gain="linear"``).

    >>> import torch
    >>> dcg(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.0, 2.0, 0.0]))         # 3 / log₂(3)
    tensor(1.8928, dtype=torch.float64)
    """
    return _measure("dcg", scores, labels, gain, **options)


def ndcg(scores: Tensor, labels: Tensor, *, gain: Gain = "exp2", **options: Unpack[ListOptions]) -> Tensor:
    r"""NDCG@k = DCG@k / Z^k, with Z^k the DCG@k of the ideal order of the list.

    With ``ties="pessimistic"`` ties lower the value even if all tied items are relevant.

    >>> import torch
    >>> scores, labels = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.0, 2.0, 0.0])
    >>> ndcg(scores, labels), ndcg(scores, labels, k=1)                           # 1 / log₂(3), and 0
    (tensor(0.6309, dtype=torch.float64), tensor(0., dtype=torch.float64))
    >>> ndcg(torch.zeros(3), labels), ndcg(torch.zeros(3), labels, ties="average")
    (tensor(0.5000, dtype=torch.float64), tensor(0.7103, dtype=torch.float64))
    """
    return _measure("ndcg", scores, labels, gain, **options)


def mrr(scores: Tensor, labels: Tensor, **options: Unpack[ListOptions]) -> Tensor:
    r"""Mean reciprocal rank: 1 / min_i rank_i over the relevant items, 0 beyond k; ``ties="average"`` raises.

    >>> import torch
    >>> mrr(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.0, 1.0, 1.0]))
    tensor(0.5000, dtype=torch.float64)
    """
    return _measure("mrr", scores, labels, "exp2", **options)


def mean_average_precision(scores: Tensor, labels: Tensor, **options: Unpack[ListOptions]) -> Tensor:
    r"""MAP@k, the mean of AP@k = (1/N⁺) Σ_{relevant i, rank_i ≤ k} (relevant items ranked ≤ rank_i) / rank_i.

    N⁺ counts all relevant items (trec_eval's ``map_cut``). ``ties="average"`` raises.

    >>> import torch
    >>> mean_average_precision(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1.0, 0.0, 1.0]))    # (1/1 + 2/3) / 2
    tensor(0.8333, dtype=torch.float64)
    """
    return _measure("map", scores, labels, "exp2", **options)


def precision(scores: Tensor, labels: Tensor, **options: Unpack[ListOptions]) -> Tensor:
    r"""Precision@k = |{relevant i: rank_i ≤ k}| / k, also for shorter lists (trec_eval's ``P_k``).

    ``k=None`` divides by the length of the list. With ``ties="average"`` a tied item counts as the fraction of its
    group's positions within k.

    >>> import torch
    >>> precision(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1.0, 0.0, 1.0]), k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    return _measure("precision", scores, labels, "exp2", **options)


def recall(scores: Tensor, labels: Tensor, **options: Unpack[ListOptions]) -> Tensor:
    r"""Recall@k = |{relevant i: rank_i ≤ k}| / N⁺, with N⁺ all relevant items; ties as for :func:`precision`.

    >>> import torch
    >>> recall(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1.0, 0.0, 1.0]), k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    return _measure("recall", scores, labels, "exp2", **options)


def hit_rate(scores: Tensor, labels: Tensor, **options: Unpack[ListOptions]) -> Tensor:
    r"""Hit rate@k: 1 if a relevant item has rank ≤ k, else 0 (trec_eval's ``success_k``); ``ties="average"`` raises.

    >>> import torch
    >>> hit_rate(torch.tensor([[0.9, 0.5], [0.5, 0.9]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]), k=1)
    tensor(0.5000, dtype=torch.float64)
    """
    return _measure("hit_rate", scores, labels, "exp2", **options)


def evaluate_lists(
    scores: Tensor,
    labels: Tensor,
    *,
    metrics: str | Sequence[str] = ("ndcg@10",),
    mask: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    ties: str = "pessimistic",
    empty: str = "skip",
    gain: Gain = "exp2",
    processes: Processes = ALONE,
) -> Evaluation:
    """Compute several metrics of the same lists, ranking each list once.

    Args:
        scores: [..., L], or 1-D with ``lengths``.
        labels: shape of scores; an item is relevant if its label is above 0.
        metrics: names with or without a cutoff: dcg, ndcg, mrr, map, precision, recall, hit_rate; e.g. ``"ndcg@10"``.
        mask: [..., L], False for padding.
        lengths: [Q], lengths of lists that are concatenated in 1-D tensors.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"``.
        empty: value of queries without a relevant item: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.
        processes: the processes that evaluate together; see :func:`songrank.metrics.evaluate_catalogue`.

    >>> import torch
    >>> scores, labels = torch.tensor([3.0, 2.0, 1.0, 5.0, 4.0]), torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0])
    >>> result = evaluate_lists(scores, labels, lengths=[3, 2], metrics=["mrr", "precision@2"])
    >>> result.values
    {'mrr': 0.75, 'precision@2': 0.5}
    >>> result.per_query["mrr"]
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    with processes.agreed():
        wanted = parse_metrics(metrics)
        check_policies(wanted, ties, empty, gain)
        lists = read_lists(scores, labels, mask, lengths)
        tally = lists.tally(wanted, ties, gain, processes)
    tally.add_up(processes)
    return Evaluation.from_tally(tally, shape=lists.shape, ties=ties, empty=empty)


def _measure(
    name: str,
    scores: Tensor,
    labels: Tensor,
    gain: Gain,
    *,
    k: int | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    ties: str = "pessimistic",
    empty: str = "skip",
    reduction: str = "mean",
) -> Tensor:
    metric = Metric(name, k)
    check_choice("reduction", reduction, REDUCTIONS)
    check_policies([metric], ties, empty, gain)
    lists = read_lists(scores, labels, mask, lengths)
    values = lists.tally([metric], ties, gain).per_query(empty)[str(metric)]
    return reduce_queries(values.reshape(lists.shape), reduction)
