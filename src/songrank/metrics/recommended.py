"""Figures of recommended items beyond accuracy: coverage, Gini index, novelty, popularity lift and diversity."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_shape, fail
from songrank.core.csr import segment_rows
from songrank.core.relevance import Relevance

_CELLS = 2**24  # scores per chunk
_PAIRS = 2**24  # products of item vectors per chunk


@dataclass(frozen=True)
class ListFigures:
    """Figures of the first k items of each user, see :func:`list_figures`."""

    k: int
    users: int
    coverage: float
    gini: float
    novelty: float
    popularity_lift: float
    diversity: float | None

    def values(self) -> dict[str, float]:
        """The figures by name, such as ``coverage@10``; diversity only if it is known."""
        names = ("coverage", "gini", "novelty", "popularity_lift", "diversity")
        return {f"{name}@{self.k}": getattr(self, name) for name in names if getattr(self, name) is not None}


@torch.no_grad()
def top_items(score_all: Callable[[Tensor], Tensor], targets: Relevance, k: int) -> Tensor:
    """The k best items of each query with a target, int64 [queries, k], on the CPU; −1 if fewer are left.

    Items that ``targets`` excludes, such as seen items, are left out; held-out items are candidates.

    Args:
        score_all: maps query ids [b] to scores [b, num_items].
        targets: the held-out pairs, as for :func:`songrank.metrics.evaluate_catalogue`.
        k: items per query.

    >>> targets = Relevance.from_pairs(query=[0, 1], item=[2, 0], num_items=4, exclude=([0], [3]))
    >>> scores = torch.tensor([[0.1, 0.2, 0.3, 0.9], [0.3, 0.2, 0.4, 0.1]])
    >>> top_items(lambda query: scores[query], targets, k=2).tolist()
    [[2, 1], [2, 0]]
    """
    if targets.list_start is not None:
        fail("targets", targets, "a catalogue relevance")
    width = min(check_int("k", k), targets.num_items)
    query = (targets.num_relevant > 0).nonzero().squeeze(1)
    found = [torch.zeros(0, k, dtype=torch.int64)]
    for rows in torch.split(query, max(1, _CELLS // targets.num_items)):
        scores = score_all(rows + targets.query_range[0]).to(torch.float64, copy=True)
        start = targets.taken_indptr[rows]
        row, at = segment_rows(targets.taken_indptr[rows + 1] - start, start)
        own_row, own_at = segment_rows(targets.num_relevant[rows], targets.indptr[rows])
        own = own_row, targets.item[own_at].long()
        kept = scores[own]
        scores[row, targets.taken_item[at].long()] = -torch.inf
        scores[own] = kept
        value, item = scores.topk(width)
        item = torch.where(value > -torch.inf, item, -1).cpu()
        found.append(torch.nn.functional.pad(item, (0, k - width), value=-1))
    return torch.cat(found)


@torch.no_grad()
def list_figures(top: Tensor, train: Relevance, item_vectors: Tensor | None = None) -> ListFigures:
    r"""Compute figures of recommended items, with c_i the number of lists and n_i of training users of item i.

    ================= =================================================================================================
    coverage          share of all N items that are in a list
    gini              Gini index of c: 0 if all items are recommended equally often, near 1 if a few items are
    novelty           mean over users of the mean of −log₂(n_i / U), with U users; n_i is at least 1
    popularity_lift   mean n_i of the recommended items / mean n_i of the users' training items − 1
    diversity         mean over users of the mean of 1 − cosine of the vectors of two items of a list
    ================= =================================================================================================

    Args:
        top: item indices [users, k], −1 for no item; see :func:`top_items`.
        train: the training pairs.
        item_vectors: features [N, F] for diversity, for example one column per genre.

    >>> train = Relevance.from_pairs(query=[0, 0, 1], item=[0, 1, 0], num_items=4)
    >>> found = list_figures(torch.tensor([[0, 1], [0, 2]]), train, torch.eye(4)[:, :3])
    >>> found.values()
    {'coverage@2': 0.75, 'gini@2': 0.375, 'novelty@2': 0.5, 'popularity_lift@2': -0.25, 'diversity@2': 1.0}
    """
    if top.dim() != 2:
        fail("top", f"of shape {list(top.shape)}", "[users, k]")
    items, users = train.num_items, max(1, int((train.num_relevant > 0).sum()))
    popularity = torch.bincount(train.item.long().cpu(), minlength=items).double()
    top = top[(top >= 0).any(1)]
    there, place = top >= 0, top.clamp_min(0)
    count = torch.bincount(top[there], minlength=items).double()
    total = float(count.sum())
    order = torch.arange(1, items + 1, dtype=torch.float64)
    gini = float(((2 * order - items - 1) * count.sort().values).sum()) / (items * total) if total else float("nan")
    surprise = -torch.log2(popularity.clamp_min(1) / users)
    novelty = torch.where(there, surprise[place], 0.0).sum(1) / there.sum(1)
    usual = float((popularity * popularity).sum() / popularity.sum()) if train.num_pairs else float("nan")
    lift = float(popularity[top[there]].mean()) / usual - 1 if total else float("nan")
    return ListFigures(
        k=int(top.shape[1]),
        users=int(top.shape[0]),
        coverage=float((count > 0).double().mean()),
        gini=gini,
        novelty=float(novelty.mean()),
        popularity_lift=lift,
        diversity=None if item_vectors is None else _diversity(top, item_vectors, items),
    )


def _diversity(top: Tensor, vectors: Tensor, items: int) -> float:
    """Mean over users with two items of the mean distance of two items."""
    check_shape("item_vectors", vectors, (items, vectors.shape[-1]), meaning="[items, features]")
    unit = torch.nn.functional.normalize(vectors.double().cpu(), dim=1)
    values = []
    for rows in torch.split(top, max(1, _PAIRS // max(1, top.shape[1] * vectors.shape[1]))):
        mask = rows >= 0
        own = unit[rows.clamp_min(0)] * mask.unsqueeze(-1)
        size = mask.sum(1).double()
        alike = own.sum(1).square().sum(1) - own.square().sum((1, 2))  # over ordered pairs of different items
        values.append((1 - alike / (size * (size - 1)))[size > 1])
    return float(torch.cat(values).mean()) if values else float("nan")
