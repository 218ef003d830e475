"""The best and worst queries of a split: their top items, and the ranks of their relevant items."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.data import Dataset, ListSplit
from songrank.functional.ranks import ranks
from songrank.sampling import SlateSampler
from songrank.training.trainer.batch_adapters import BatchAdapter, CatalogueAdapter

_MOST_RELEVANT = 10
_MOST_TIED = 200


@dataclass(frozen=True)
class RankedItem:
    """An item with its original id, and its rank under the tie policy of the evaluation."""

    item: str
    label: float
    rank: float
    score: float


@dataclass(frozen=True)
class RankedQuery:
    """The ranking of a query: its top items, and its first relevant items."""

    query: str
    value: float
    list_size: int
    num_relevant: int
    top: tuple[RankedItem, ...]
    relevant: tuple[RankedItem, ...]


def best_and_worst(
    values: Tensor, relevant: Tensor, first_rank: Callable[[int], float], count: int = 5
) -> tuple[list[int], list[int]]:
    """Indices of the queries with the best and worst values; queries without relevant items are skipped.

    Of equal values, those with most relevant items are best, and those whose first relevant item has the lowest place,
    ``first_rank``, are worst. Of many queries with the worst value, at most 200, evenly spaced, are compared.
    """
    numbers = ((relevant > 0) & ~values.isnan()).nonzero().squeeze(1)
    best = sorted(numbers.tolist(), key=lambda query: (-float(values[query]), -int(relevant[query]), query))
    few = min(count, len(numbers) // 2)
    if not few:
        return best[:count], []
    highest = values[numbers].kthvalue(few).values
    tied = numbers[values[numbers] == highest]
    places = torch.linspace(0, len(tied) - 1, min(len(tied), _MOST_TIED)).round().long()
    compared = [*numbers[values[numbers] < highest].tolist(), *tied[places].tolist()]
    worst = sorted(compared, key=lambda query: (float(values[query]), -first_rank(query), query))
    return best[: min(count, -(-len(numbers) // 2))], worst[:few]


class QueryRanker:
    """Ranks complete lists of a split, one query at a time; the model is in evaluation mode on the adapter's device."""

    def __init__(self, model: Any, adapter: BatchAdapter, dataset: Dataset, split: str, ties: str) -> None:
        self.model, self.adapter, self.dataset, self.split, self.ties = model, adapter, dataset, split, ties
        self._lists = SlateSampler(dataset.relevance(split), 1, relevant="all", irrelevant="all")

    @torch.no_grad()
    def rank(self, query: int, value: float) -> RankedQuery:
        """The ranking of this query; ``value`` is its metric."""
        numbers, label, scores, place = self._ranked(query)
        order = scores.argsort(descending=True, stable=True)
        relevant = order[label[order] > 0].tolist()

        def describe(at: int) -> RankedItem:
            name = f"document {at + 1}" if self.dataset.form == "list" else str(self.dataset.item_ids[int(numbers[at])])
            return RankedItem(name, float(label[at]), float(place[at]), float(scores[at]))

        name = str(self.dataset.split_query_ids(self.split)[query])
        top, first = (tuple(map(describe, places)) for places in (order[:5].tolist(), relevant[:_MOST_RELEVANT]))
        return RankedQuery(name, value, len(numbers), len(relevant), top, first)

    @torch.no_grad()
    def first_rank(self, query: int) -> float:
        """The rank of the query's first relevant item."""
        _, label, _, place = self._ranked(query)
        return float(place[label > 0].min())

    def _ranked(self, query: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Index, label, score and rank of each item of the query's list."""
        slate = self._lists.draw([query])
        mask = slate.mask.expand(slate.label.shape)[0]
        numbers, label = slate.item[0][mask], slate.label[0][mask]
        scores = self._scores(query, numbers)
        return numbers, label, scores, ranks(scores, ties=self.ties)

    def _scores(self, query: int, item: Tensor) -> Tensor:
        part = self.dataset[self.split]
        if isinstance(part, ListSplit):
            rows = part.features[item].float().unsqueeze(0).to(self.adapter.relevance.device)
            found: Tensor = self.model(rows, torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device))
            return found[0].float().cpu()
        assert isinstance(self.adapter, CatalogueAdapter)
        place = torch.tensor([query], device=self.adapter.device)
        scores: Tensor = self.model.score_all(self.adapter.queries(self.split, place))
        return scores[0].float().cpu()[item]
