"""Metrics on sampled candidates: a quick check during training, not a result to report."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_shape, fail
from songrank.core.errors import NotFiniteError
from songrank.core.gains import Gain
from songrank.core.processes import ALONE, Processes
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.metrics.evaluation import Evaluation, Tally
from songrank.metrics.names import check_policies, parse_metrics
from songrank.metrics.positions import positions
from songrank.metrics.spans import Spans
from songrank.sampling import SlateSampler

_CELLS = {"cpu": 2**18, "cuda": 2**22}


@torch.no_grad()
def evaluate_sampled(
    score: Callable[[Tensor, Tensor], Tensor],
    targets: Relevance,
    candidates: int = 1000,
    *,
    seed: int = 0,
    metrics: str | Sequence[str] = ("ndcg@10",),
    ties: str = "pessimistic",
    empty: str = "skip",
    gain: Gain = "exp2",
    processes: Processes = ALONE,
) -> Evaluation:
    """Compute metrics of a scorer that ranks a query's targets among ``candidates`` random irrelevant items.

    The paper does this during training. Values are far higher than among all items and may order models differently
    (Krichene and Rendle, KDD 2020), so the evaluation reports the number of candidates.

    Args:
        score: maps queries [b] and items [b, L] to scores [b, L], as a model of a catalogue task does.
        targets: held-out pairs and, as ``exclude``, items to remove from the ranking.
        candidates: number of distinct irrelevant items per query; all if at least the size of the catalogue.
        seed: random seed of the candidates.
        metrics: names with or without a cutoff; see :func:`songrank.metrics.evaluate_lists`.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"``.
        empty: value of queries without a target: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.
        processes: the processes that evaluate together; see :func:`songrank.metrics.evaluate_catalogue`.

    >>> targets = Relevance.from_pairs(query=[0, 1], item=[39, 0], num_items=40)
    >>> print(evaluate_sampled(lambda query, item: -item.float(), targets, candidates=10, metrics="mrr"))
    mrr  0.545455
    2 queries, 0 without relevant items (left out); among 10 sampled candidates; ties: pessimistic; gain: exp2
    """
    with processes.agreed():
        wanted = parse_metrics(metrics)
        check_policies(wanted, ties, empty, gain)
        candidates = min(check_int("candidates", candidates), targets.num_items)
        if not targets.is_catalogue:
            fail("targets", targets, "a catalogue relevance; use evaluate_lists for queries with their own documents")
        tally = Tally(wanted, targets.list_size > 0, gain)
        rows = (targets.num_relevant > 0).nonzero().squeeze(1)
        if rows.numel():
            sampler = SlateSampler(targets, 1, relevant="all", irrelevant=candidates, seed=seed)
            step = max(1, _CELLS.get(targets.device.type, 2**22) // (candidates + targets.max_relevant))
            for row in processes.share(rows.split(step)):  # type: ignore[no-untyped-call]
                slate = sampler.draw(row + targets.query_range[0], epoch=0)
                scores = score(slate.query, slate.item)
                check_shape("score(query, item)", scores, tuple(slate.item.shape), meaning="[queries, candidates]")
                tally.add(row, _spans(scores.float(), slate, ties))
    tally.add_up(processes)
    shape = (targets.num_relevant.shape[0],)
    sampled = candidates if candidates < targets.num_items else None  # None: all items were ranked
    return Evaluation.from_tally(tally, shape=shape, ties=ties, empty=empty, candidates=sampled)


def _spans(scores: Tensor, slate: Slate, ties: str) -> Spans:
    """Positions of the targets among all columns."""
    assert slate.pair is not None
    if bool((slate.mask & scores.isnan()).any()):
        row = (slate.mask & scores.isnan()).any(-1).nonzero()[0]
        fail(f"score for query {int(slate.query[row])}", "NaN", "a number for each candidate", NotFiniteError)
    size = slate.mask.sum(-1)
    first, last = positions(torch.where(slate.mask, scores, torch.nan), slate.column, size, ties)
    label = torch.where(slate.active, slate.label.gather(1, slate.column).double(), 0.0)
    return Spans(first=first, last=last, label=label, mask=slate.active, list_size=size)
