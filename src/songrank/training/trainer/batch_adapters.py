"""Batch adapters: connect a prepared data set to a model, one adapter per kind of query.

``scores(model, slate)`` scores a slate; ``evaluate(model, split)`` ranks whole lists: the catalogue without seen items,
or the documents of each query. An adapter also creates the sampler of its slates.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.core.pairs import latest_pairs
from songrank.core.processes import ALONE, Processes
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.data import CatalogueSplit, Dataset, ListSplit
from songrank.losses.base import Traits
from songrank.metrics import Evaluation, evaluate_catalogue, evaluate_lists, evaluate_sampled
from songrank.metrics.catalogue import MEMORY
from songrank.models.base import RankingModel
from songrank.models.document_lists import score_lists
from songrank.sampling import SharedBatches, SlateSampler
from songrank.training.trainer.shard import gathered, join_shards, query_ranges

if TYPE_CHECKING:
    from songrank.training.config.recipe import Batch

_EVALUATION_BYTES = 3 * 2**29  # per chunk, in addition to the training state on a GPU
_WORD_BYTES = 4 * 1024  # of a word vector and the outputs of its filters
_DOCUMENTS = 2**18  # scored at a time in a training step; about 1 GB with the layers of a recipe
_DENSE_BYTES = 2**30  # of features kept dense on a GPU, which is faster and allows a CUDA graph


class BatchAdapter(Protocol):
    """The data interface of the training loop; implement it to train on other data than a prepared data set."""

    relevance: Relevance  # the training pairs, on the device

    @abstractmethod
    def scores(self, model: Any, slate: Slate) -> Tensor:
        """Scores [B, L] of a training slate."""

    @abstractmethod
    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Metrics on the full lists of a split or among sampled candidates; the model is in evaluation mode."""


class DatasetAdapter(BatchAdapter):
    """An adapter of a prepared data set, which also creates its slates."""

    def __init__(self, dataset: Dataset, device: torch.device | str) -> None:
        self.dataset, self.device = dataset, torch.device(device)
        self.processes = ALONE
        self.own = 0, dataset["train"].num_queries
        self._shared: SharedBatches | None = None

    @cached_property
    def relevance(self) -> Relevance:  # type: ignore[override]
        """The training pairs, on the device."""
        return self.dataset.relevance("train", device=self.device)

    def share(self, processes: Processes) -> None:
        """Read the training queries of this process only; evaluations divide the queries of a split likewise."""
        if processes.world == 1:
            return
        self.processes = processes
        with processes.agreed():
            self.own = query_ranges(self.dataset["train"].offsets.diff(), processes)[processes.rank]
            found = self.dataset.relevance("train", device=self.device, queries=self.own)
        self.relevance = join_shards(found, processes)
        active = processes.gather((self.relevance.num_relevant > 0).to(torch.uint8))
        self._shared = SharedBatches(active.nonzero().squeeze(1), self.own)

    @property
    def active_queries(self) -> int:
        """The number of queries of an epoch, on all processes: those with a relevant item in training."""
        if self._shared is not None:
            return self._shared.queries.shape[0]
        return int((self.relevance.indptr.diff() > 0).sum())

    def sampler(self, batch: "Batch", **options: Any) -> SlateSampler:
        """A sampler of slates: relevant and irrelevant items of each query."""
        weight = self.dataset["train"].weight
        options["query_weight"] = None if weight is None else weight[slice(*self.own)]
        alone = self._shared is None
        options["partial"] = "pad" if self.device.type == "cuda" and alone else "short"  # one shape for CUDA graphs
        options["shared"] = self._shared
        return SlateSampler(self.relevance, batch.size, **self._columns(batch), **options)

    def _columns(self, batch: "Batch") -> dict[str, Any]:
        if batch.length == "all":
            return {"relevant": "all", "irrelevant": "all"}
        return {"relevant": batch.relevant, "irrelevant": batch.irrelevant, "length": batch.length}

    def loss_sizes(self, batch: "Batch") -> dict[str, Any]:
        """The sizes of losses that follow from the data, and the ranges of rows that this process holds."""
        found: dict[str, Any] = {
            "num_pairs": self.relevance.num_pairs,
            "num_queries": self.relevance.num_queries,
            "queries_per_batch": batch.size,
            "active_queries": self.active_queries,
        }
        if self._shared is not None:
            found |= {"query_range": self.relevance.query_range, "pair_range": self.relevance.pair_range}
        return found

    def rows_at_once(self, batch: "Batch", losses: Mapping[str, Traits]) -> int | None:
        """The number of rows to score at a time; None for a whole batch."""
        return None


class CatalogueAdapter(DatasetAdapter):
    """Recommendation and labelling: a query is an id, features or words; the items are the catalogue."""

    entry_queries = False  # whether the queries of a loss are entries of histories
    one_row_per_key = True  # whether each of ``memory_keys`` is a row of the loss memory

    def __init__(self, dataset: Dataset, device: torch.device | str, evaluated: Sequence[str] = ()) -> None:
        super().__init__(dataset, device)
        self.evaluated = tuple(evaluated)
        self._queries: dict[str, Callable[[Tensor], Any]] = {}
        self._targets: dict[str, Relevance] = {}
        self.first_row = 0
        """The query of the first row of the model's tables of queries."""

    def share(self, processes: Processes) -> None:
        """Read the queries of this process only."""
        super().share(processes)
        for split in self.evaluated:
            self.targets(split)

    def _own_range(self, split: str) -> tuple[int, int] | None:
        """The queries of a split that this process evaluates: its training queries if splits share their queries."""
        if self.processes.world == 1:
            return None
        if self.dataset.info["shared_queries"]:
            return self.own
        return query_ranges(self.dataset[split].offsets.diff(), self.processes)[self.processes.rank]

    @property
    def reads_ids(self) -> bool:
        """Whether the model's only input is the ids of queries."""
        part = self._split("train")
        return part.tokens is None and part.features is None

    def targets(self, split: str) -> Relevance:
        """The relevant items of this process's queries in a split, without seen items; built once."""
        if split not in self._targets:
            own = self._own_range(split)
            self._targets[split] = self.dataset.relevance(split, device=self.device, queries=own)
        return self._targets[split]

    def with_targets(self, split: str, targets: Relevance) -> Self:
        """The same adapter with other relevant items of a split, for example of a part of its queries."""
        found = copy(self)
        found._targets = {**self._targets, split: targets}
        return found

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """``model(query, item)`` for a training slate."""
        answer: Tensor = model(self.queries("train", slate.query), slate.item)
        return answer

    def queries(self, split: str, query: Tensor) -> Any:
        """The model input of these queries of a split: ids, dense rows of features, or words."""
        if split not in self._queries:
            self._queries[split] = self._describe(self._split(split))
        return self._queries[split](query)

    def memory_keys(self) -> Tensor:
        """Query · items + item of each row of the loss memory by pair."""
        part = self._split("train")
        return latest_pairs(part.pairs, part.num_items)[0]

    def _describe(self, part: CatalogueSplit) -> Callable[[Tensor], Any]:
        if part.tokens is not None:
            tokens = part.tokens
            return lambda query: tokens[query.to(tokens.device)].long().to(self.device)
        if part.features is not None:
            table = part.features.to(self.device)
            if "vocabulary" in self.dataset.info:  # rows of texts are too sparse to be worth densifying
                return lambda query: _parts(table.take(query.to(table.offsets.device)))
            if self.device.type == "cpu" or part.num_queries * part.num_features * 4 > _DENSE_BYTES:
                return partial(table.dense, width=part.num_features)
            everything = table.dense(torch.arange(part.num_queries, device=self.device), part.num_features)
            return lambda query: everything[query]
        return lambda query: query - self.first_row if self.first_row else query

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Rank the catalogue, without seen items of earlier splits, for each query of the split."""
        return gathered(lambda: self._evaluate(model, split, candidates, **policies), self.processes)

    def _evaluate(self, model: Any, split: str, candidates: int | str, **policies: Any) -> Evaluation:
        memory, step, targets = self._memory, self._step(model, split), self.targets(split)
        with torch.no_grad():
            if candidates != "all":

                def score(query: Tensor, item: Tensor) -> Tensor:
                    both = zip(torch.split(query, step), torch.split(item, step), strict=True)
                    return torch.cat([model(self.queries(split, some), items) for some, items in both])

                return evaluate_sampled(score, targets, int(candidates), **policies)

            at_once = self.reads_ids and step >= self.dataset.num_queries and not self.first_row
            scorer = model.score_all if at_once else self.scorer(model, split)
            return evaluate_catalogue(scorer, targets, memory=memory, **policies)

    def scorer(self, model: Any, split: str) -> Callable[[Tensor], Tensor]:
        """The function from ids of queries [b] of a split to scores [b, N] of all items, in bounded memory."""
        step = self._step(model, split)

        def score_all(query: Tensor) -> Tensor:
            parts = [model.score_all(self.queries(split, part)) for part in torch.split(query, step)]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

        return score_all

    @property
    def _memory(self) -> int:
        """Bytes for the evaluation of a chunk of queries."""
        return min(MEMORY.get(self.device.type, MEMORY["cpu"]), _EVALUATION_BYTES)

    def _step(self, model: Any, split: str) -> int:
        """The number of queries to score at a time."""
        return max(1, self._memory // max(1, self._bytes_per_query(model, split)))

    def _bytes_per_query(self, model: Any, split: str) -> int:
        part = self._split(split)
        own = part.num_features * 4 if part.tokens is None else part.tokens.shape[1] * _WORD_BYTES
        return max(own, model.query_bytes if isinstance(model, RankingModel) else 0)

    def _split(self, name: str) -> CatalogueSplit:
        part = self.dataset[name]
        assert isinstance(part, CatalogueSplit)
        return part


def _parts(rows: CSR) -> tuple[Tensor, Tensor, Tensor]:
    """Sparse rows as a model reads them."""
    return rows["index"], rows.offsets, rows["value"]


class DocumentAdapter(DatasetAdapter):
    """Search: each query has documents with features; evaluation ranks full lists, training may truncate them."""

    def __init__(self, dataset: Dataset, device: torch.device | str) -> None:
        super().__init__(dataset, device)
        self._first = 0  # document of this process

    def share(self, processes: Processes) -> None:
        """Read the training queries of this process only."""
        super().share(processes)
        self._first = int(self._split("train").offsets[self.own[0]])

    @cached_property
    def _train(self) -> Tensor:
        """The features of the training documents of this process, on the device."""
        part = self._split("train")
        first, last = (int(part.offsets[query]) for query in self.own)
        return part.features[first:last].to(self.device)

    def _split(self, name: str) -> ListSplit:
        part = self.dataset[name]
        assert isinstance(part, ListSplit)
        return part

    def _columns(self, batch: "Batch") -> dict[str, Any]:
        if batch.length is None:
            batch = batch.model_copy(update={"length": self.dataset.info.get("training", {}).get("list_size")})
        return super()._columns(batch)

    def rows_at_once(self, batch: "Batch", losses: Mapping[str, Traits]) -> int | None:
        """The number of long lists to score at a time; None for a whole batch, which some losses need."""
        longest = int(self.dataset["train"].offsets.diff().amax())
        shown = self._columns(batch)
        if shown["irrelevant"] != "all":
            longest = min(longest, shown.get("length") or int(shown["relevant"]) + int(shown["irrelevant"]))
        rows = max(_DOCUMENTS // max(longest, 1), 1)
        whole = any(traits.whole_batch for traits in losses.values())
        return None if whole or min(batch.size, self.active_queries) <= rows else rows

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """``model(features, mask)`` for a training slate."""
        item = (slate.item - self._first).clamp_min(0) if self._first else slate.item  # padding is document 0
        answer: Tensor = model(self._train[item].float(), slate.mask)
        return answer

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Rank all documents of each query."""
        if candidates != "all":
            raise UserError(f"candidates is {candidates}; expected 'all': search queries have their own lists")
        part, policies = self._split(split), {"processes": self.processes, **policies}
        scores = score_lists(model, part.features, part.lengths, self.device, policies["processes"])
        return evaluate_lists(scores, part.label, lengths=part.lengths, **policies)
