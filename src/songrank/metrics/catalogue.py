"""All-ranking: each query ranks the whole catalogue; only positions of held-out items are computed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from songrank import kernels
from songrank.core.checks import check_int, check_shape, fail
from songrank.core.csr import segment_rows
from songrank.core.errors import NotFiniteError
from songrank.core.gains import Gain
from songrank.core.pairs import pack, without
from songrank.core.processes import ALONE, Processes
from songrank.core.relevance import Relevance
from songrank.metrics.evaluation import Evaluation, Tally
from songrank.metrics.names import FORMULAS, check_policies, parse_metrics
from songrank.metrics.positions import COUNT_BYTES, MANY, SORT_BYTES, positions
from songrank.metrics.spans import Spans

MEMORY = {"cpu": 2**28, "cuda": 2**32}
CHOICE_QUERIES = 2_000
"""Queries that suffice to choose an option that changes the scores smoothly."""
_TARGET_BYTES = 160  # per target: its column in the spans and temporaries of the formulas
_TAKEN_BYTES = 48  # per excluded item: its coordinates


class ScoresAll(Protocol):
    """A model of a catalogue task."""

    def score_all(self, query: Tensor, /) -> Tensor:
        """Scores [b, num_items] of the queries [b]."""
        ...


@torch.no_grad()
def evaluate_catalogue(
    score_all: Callable[[Tensor], Tensor] | ScoresAll,
    targets: Relevance,
    *,
    metrics: str | Sequence[str] = ("ndcg@10", "ndcg@20", "ndcg@50"),
    ties: str = "pessimistic",
    empty: str = "skip",
    gain: Gain = "exp2",
    memory: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    processes: Processes = ALONE,
) -> Evaluation:
    """Compute exact metrics of a scorer that ranks all items of the catalogue for each query of ``targets``.

    The candidates of a query are all items, other targets included, except those that ``targets`` excludes. Queries
    without a target are not scored and count as empty.

    Args:
        score_all: maps query ids [b], on the relevance's device and in no particular order, to scores [b, num_items]
            there; or a model (in evaluation mode) with a method of that name.
        targets: the held-out pairs and, as ``exclude``, the items to remove from the ranking, for example seen items.
            May be a shard: its queries keep the ids of the whole task.
        metrics: names with or without a cutoff; see :func:`songrank.metrics.evaluate_lists`.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"`` (by item id).
        empty: value of queries without a target: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.
        memory: bytes per chunk for scores in float64 and temporaries, excluding those of ``score_all``; a chunk has at
            least one query. By default 256 MB on a CPU, 4 GB on a GPU.
        progress: called after each chunk with the numbers of queries done and in total.
        processes: the processes that evaluate together, all with the same arguments: each scores a range of the chunks
            of one process, so the result is the same, on all of them.

    >>> targets = Relevance.from_pairs(query=[0, 1], item=[2, 0], num_items=4, exclude=([0], [3]))
    >>> scores = torch.tensor([[0.1, 0.2, 0.3, 0.9], [0.3, 0.2, 0.4, 0.1]])
    >>> evaluate_catalogue(lambda query: scores[query], targets, metrics=["mrr", "hit_rate@1"]).values
    {'mrr': 0.75, 'hit_rate@1': 0.5}
    >>> evaluate_catalogue(lambda query: torch.zeros(len(query), 4), targets, metrics="mrr").per_query["mrr"]
    tensor([0.3333, 0.2500], dtype=torch.float64)
    """
    with processes.agreed():
        wanted = parse_metrics(metrics)
        check_policies(wanted, ties, empty, gain)
        memory = MEMORY.get(targets.device.type, MEMORY["cpu"]) if memory is None else check_int("memory", memory)
        scorer = getattr(score_all, "score_all", score_all)
        if not callable(scorer):
            fail("score_all", type(score_all).__name__, "a function of query ids, or a model with score_all", TypeError)
        if targets.list_start is not None:
            fail("targets", targets, "a catalogue relevance; use evaluate_lists for queries with their own documents")

        tally = Tally(wanted, targets.list_size > 0, gain)
        own = processes.share(list(_chunks(targets, memory)))
        done, total = 0, sum(query.shape[0] for query in own)
        for query in own:
            tally.add(query, _rank(_scored(scorer, targets, query), targets, query, ties))
            done += query.shape[0]
            if progress is not None:
                progress(done, total)
    tally.add_up(processes)
    return Evaluation.from_tally(tally, shape=(targets.num_relevant.shape[0],), ties=ties, empty=empty)


@torch.no_grad()
def metric_values(
    scorings: Callable[[Tensor], Iterable[Tensor]],
    targets: Relevance,
    metric: str,
    *,
    queries: Tensor | None = None,
    ties: str = "pessimistic",
    gain: Gain = "exp2",
    memory: int | None = None,
) -> Tensor:
    """Values [C, n] of one metric for C scorings of the same queries, computed chunk by chunk.

    Scores of a chunk can be shared by the scorings, for example blends of the same models.

    Args:
        scorings: maps query ids [b] to C scores [b, num_items], one at a time.
        targets: as for :func:`evaluate_catalogue`.
        metric: name of the metric.
        queries: ids of n queries with a target, ascending; None for all of them.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.
        memory: bytes per chunk, as for :func:`evaluate_catalogue`.

    >>> targets = Relevance.from_pairs(query=[0, 1], item=[2, 0], num_items=4)
    >>> scores = torch.tensor([[0.1, 0.2, 0.3, 0.9], [0.3, 0.2, 0.4, 0.1]])
    >>> metric_values(lambda query: (sign * scores[query] for sign in (1, -1)), targets, "mrr")
    tensor([[0.5000, 0.5000],
            [0.3333, 0.3333]], dtype=torch.float64)
    """
    (wanted,) = parse_metrics(metric)
    check_policies([wanted], ties, "skip", gain)
    memory = MEMORY.get(targets.device.type, MEMORY["cpu"]) if memory is None else check_int("memory", memory)
    first, measure = targets.query_range[0], FORMULAS[wanted.name]
    rows = (targets.num_relevant > 0).nonzero().squeeze(-1) if queries is None else queries.to(targets.device) - first
    parts, at = [], []
    for query in _chunks(targets, memory, rows):
        scored = (_checked(scores, targets, query) for scores in scorings(query + first))
        spans = (_rank(scores, targets, query, ties) for scores in scored)
        parts.append(torch.stack([measure(found, wanted.k, gain) for found in spans]))
        at.append(query)
    if not parts:
        fail("targets", targets, "at least one query with a target")
    return torch.cat(parts, dim=1)[:, torch.cat(at).argsort()]


def some_queries(targets: Relevance, most: int) -> Relevance:
    """The same lists with the targets of at most ``most`` queries, evenly spaced; the other queries count as empty.

    >>> targets = Relevance.from_pairs(query=[0, 1, 2, 3], item=[2, 0, 1, 1], num_items=4)
    >>> some_queries(targets, 2).num_relevant.tolist()
    [1, 0, 0, 1]
    """
    known = (targets.num_relevant > 0).nonzero().squeeze(1)
    if known.shape[0] <= most:
        return targets
    kept = torch.zeros_like(targets.num_relevant, dtype=torch.bool)
    kept[known[torch.linspace(0, known.shape[0] - 1, most, device=known.device).round().long()]] = True
    query, taken = segment_rows(targets.indptr.diff()), segment_rows(targets.taken_indptr.diff())
    own = kept[query]
    keys = pack(query[own], targets.item[own].long(), targets.num_items)
    barred = without(pack(taken, targets.taken_item.long(), targets.num_items), keys)
    return Relevance.from_keys(keys, targets.label[own], kept.shape[0], targets.num_items, barred)


def _chunks(targets: Relevance, memory: int, rows: Tensor | None = None) -> Iterator[Tensor]:
    """Positions of the queries to score, by number of targets, so that few columns are padding."""
    relevant = targets.num_relevant
    count, order = (relevant if rows is None else relevant[rows]).sort(stable=True)
    order = order if rows is None else rows[order]
    none, few = torch.searchsorted(count, torch.tensor([0, MANY], device=count.device), right=True).tolist()
    excluded = targets.taken_indptr.diff() * _TAKEN_BYTES if _has_exclusions(targets) else torch.zeros_like(relevant)
    for group, cell, widest in ((order[none:few], COUNT_BYTES, MANY), (order[few:], SORT_BYTES, targets.max_relevant)):
        total = (excluded[group] + targets.num_items * cell + widest * _TARGET_BYTES).cumsum(0)
        begin, used = 0, 0
        while begin < group.shape[0]:
            end = max(begin + 1, int(torch.searchsorted(total, used + memory, right=True)))
            yield group[begin:end]
            begin, used = end, int(total[end - 1])


def _scored(scorer: Callable[[Tensor], Tensor], targets: Relevance, query: Tensor) -> Tensor:
    return _checked(scorer(query + targets.query_range[0]), targets, query)


def _checked(scores: Tensor, targets: Relevance, query: Tensor) -> Tensor:
    check_shape("score_all(query)", scores, (query.shape[0], targets.num_items), meaning="[queries, num_items]")
    if scores.device != targets.device:
        fail("score_all(query)", f"on {scores.device}", f"scores on the relevance's device, {targets.device}")
    return scores if scores.is_floating_point() else scores.double()


def _rank(scores: Tensor, targets: Relevance, query: Tensor, ties: str) -> Spans:
    count = targets.num_relevant[query]
    place = torch.arange(int(count.max()), device=targets.device)
    mask = place < count.unsqueeze(-1)
    at = torch.where(mask, targets.indptr[query].unsqueeze(-1) + place, torch.zeros_like(place))
    item = torch.where(mask, targets.item[at].long(), torch.zeros_like(at))
    label = torch.where(mask, targets.label[at].double(), torch.zeros((), dtype=torch.float64, device=targets.device))

    size, exclusions = targets.list_size[query], _has_exclusions(targets)
    if ties != "stable" and kernels.usable(scores):
        from songrank.kernels.positions import count_positions

        start = targets.taken_indptr
        taken = (start[query], start[query + 1], targets.taken_item) if exclusions else None
        first, last, missing = count_positions(scores, item, count, taken, ties)
        suspect = bool(missing.any())
        if not suspect:
            return Spans(first=first, last=last, label=label, mask=mask, list_size=size)
    else:  # amax propagates NaN without a second tensor of this size; the query is located only if there is one
        suspect = bool(scores.amax(-1).isnan().any())
    strike_out = exclusions and (item.shape[-1] > MANY or ties == "stable" or suspect)
    if strike_out:
        scores = _strike_out(scores, targets, query, item, mask)
    if suspect:
        _refuse_nan(scores, targets, query)
    first, last = positions(scores, item, size, ties)
    if exclusions and not strike_out:
        first, last = _less_excluded(first, last, scores, targets, query, item, mask)
    return Spans(first=first, last=last, label=label, mask=mask, list_size=size)


def _has_exclusions(targets: Relevance) -> bool:
    return targets.taken_item.shape[0] > targets.item.shape[0]


def _taken(targets: Relevance, query: Tensor) -> tuple[Tensor, Tensor]:
    """(row, item) of the targets and excluded items of these queries."""
    start = targets.taken_indptr[query]
    row, at = segment_rows(targets.taken_indptr[query + 1] - start, start)
    return row, targets.taken_item[at].long()


def _less_excluded(
    first: Tensor, last: Tensor, scores: Tensor, targets: Relevance, query: Tensor, item: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Positions without the excluded items (taken and not targets), computed without a copy of the scores."""
    row, column = _taken(targets, query)
    taken, target = scores[row, column], scores.gather(-1, item)

    def counted(reaches: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        found = torch.zeros(target.shape, dtype=torch.int64, device=scores.device)
        for j in range(target.shape[-1]):
            found[:, j].index_add_(0, row, reaches(taken, target[row, j]).long())
        own = reaches(target.unsqueeze(-2), target.unsqueeze(-1)) & mask.unsqueeze(-2)
        return found - own.sum(-1)

    behind = last - counted(torch.ge)
    return behind if first is last else first - counted(torch.gt), behind


def _strike_out(scores: Tensor, targets: Relevance, query: Tensor, item: Tensor, mask: Tensor) -> Tensor:
    """Scores with NaN for excluded items: comparisons with NaN are false, so they do not compete."""
    struck = scores.index_put(_taken(targets, query), scores.new_tensor(torch.nan))
    row, column = mask.nonzero(as_tuple=True)
    held_out = item[row, column]
    return struck.index_put_((row, held_out), scores[row, held_out])


def _refuse_nan(scores: Tensor, targets: Relevance, query: Tensor) -> None:
    competing = (~scores.isnan()).sum(-1)
    wrong = (competing != targets.list_size[query]).nonzero()
    if wrong.numel():
        at = int(query[wrong[0, 0]]) + targets.query_range[0]
        fail(f"score_all for query {at}", "NaN for a candidate item", "a number for each candidate", NotFiniteError)
