"""What a model is fed with: the bridge from a prepared data set to the two calls that models have.

One feed a task. ``scores(model, slate)`` is the model's answer for a slate; ``evaluate(model, split)`` ranks whole
lists: the catalogue less what was seen, or each query's own documents.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.data import CatalogueSplit, Dataset, ListSplit
from songrank.data.dataset import SPLITS
from songrank.metrics import Evaluation, evaluate_catalogue, evaluate_lists, evaluate_sampled
from songrank.metrics.catalogue import MEMORY
from songrank.models.registry import history_length
from songrank.sampling import HistorySlate, last_windows, next_items
from songrank.serving.histories import dataset_histories

_EVALUATION_BYTES = 3 * 2**29  # of a chunk, beside the state of training on a GPU
_WORD_BYTES = 4 * 1024  # of a word's vector and what filters make of it
_DENSE_BYTES = 2**30  # features that are kept dense on a GPU, where that is faster and a graph can be recorded of it
_STATE_BYTES = 16 * 1024  # of an item's state in a model that does not say its own ``query_bytes``
_LIST_VALUES = 1 << 24  # features of padded lists that are scored at once in evaluation


class Feed(Protocol):
    """How one task's data reaches a model."""

    relevance: Relevance
    """Of training, on the device."""

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """Scores [B, L] for a slate of training."""
        ...

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Metrics over the full lists of a split, or among sampled candidates where the task has a catalogue.

        The model is put into evaluation mode by the caller.
        """
        ...


def make_feed(
    dataset: Dataset,
    device: torch.device | str = "cpu",
    model: torch.nn.Module | None = None,
    following: int = 1,
    gain: str = "exp2",
    windows: str = "last",
) -> Feed:
    """The feed of a data set's task, and of what a model reads: histories where it has a ``history_length``.

    Of histories in order, the next ``following`` items are relevant in training (:func:`songrank.sampling.next_items`),
    and ``windows`` says which part of a long one is read (:class:`songrank.sampling.SequenceSampler`).

    >>> import tempfile
    >>> from songrank import SlateSampler, models
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/demo", queries=30, items=40, pairs=300)
    >>> feed = make_feed(dataset)
    >>> model = models.create("neumf", num_queries=30, num_items=40, dim=8)
    >>> slate = next(iter(SlateSampler(feed.relevance, queries_per_batch=5, relevant=2, irrelevant=4)))
    >>> feed.scores(model, slate).shape
    torch.Size([5, 6])
    """
    if dataset.form == "list":
        return ListFeed(dataset, device)
    length = history_length(model)
    if length is None:
        return CatalogueFeed(dataset, device)
    if hasattr(model, "states"):
        return SequenceFeed(dataset, device, length, following, gain, windows)
    return HistoryFeed(dataset, device, length)


class CatalogueFeed:
    """Recommendation and labelling: a query is its id, its features or its words; the items are the catalogue."""

    def __init__(self, dataset: Dataset, device: torch.device | str) -> None:
        self.dataset, self.device = dataset, torch.device(device)
        self.relevance = dataset.relevance("train", device=self.device)
        self._queries: dict[str, Callable[[Tensor], Any]] = {}
        self._targets: dict[str, Relevance] = {}

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """``model(query, item)`` for a slate of training."""
        answer: Tensor = model(self.queries("train", slate.query), slate.item)
        return answer

    def queries(self, split: str, query: Tensor) -> Any:
        """What describes these queries of a split to a model: ids, dense rows of features, or words."""
        if split not in self._queries:
            part = self.dataset[split]
            assert isinstance(part, CatalogueSplit)
            self._queries[split] = self._describe(part)
        return self._queries[split](query)

    def _describe(self, part: CatalogueSplit) -> Callable[[Tensor], Any]:
        if part.tokens is not None:
            tokens = part.tokens
            return lambda query: tokens[query.to(tokens.device)].long().to(self.device)
        if part.features is not None:
            table = part.features.to(self.device)
            rows = part.num_queries
            if self.device.type == "cpu" or rows * part.num_features * 4 > _DENSE_BYTES:
                return partial(table.dense, width=part.num_features)
            everything = table.dense(torch.arange(rows, device=self.device), part.num_features)
            return lambda query: everything[query]
        return lambda query: query

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Rank the catalogue, less what was seen in earlier splits, for each query of the split."""
        if split not in self._targets:
            self._targets[split] = self.dataset.relevance(split, device=self.device)
        targets = self._targets[split]
        memory = min(MEMORY.get(self.device.type, MEMORY["cpu"]), _EVALUATION_BYTES)
        step = max(1, memory // max(1, self._bytes_a_query(model, split)))
        with torch.no_grad():
            if candidates != "all":

                def score(query: Tensor, item: Tensor) -> Tensor:
                    both = zip(torch.split(query, step), torch.split(item, step), strict=True)
                    return torch.cat([model(self.queries(split, some), items) for some, items in both])

                return evaluate_sampled(score, targets, int(candidates), **policies)

            def score_all(query: Tensor) -> Tensor:
                parts = [model.score_all(self.queries(split, part)) for part in torch.split(query, step)]
                return parts[0] if len(parts) == 1 else torch.cat(parts)

            return evaluate_catalogue(score_all, targets, memory=memory, **policies)

    def _bytes_a_query(self, model: Any, split: str) -> int:
        """What describes a query while it is scored, roughly: dense features, or a vector for each of its words."""
        part = self.dataset[split]
        assert isinstance(part, CatalogueSplit)
        if part.tokens is not None:
            return part.tokens.shape[1] * _WORD_BYTES
        return part.num_features * 4


class HistoryFeed(CatalogueFeed):
    """Recommendation by what users turned to before: a query is a history, of at most ``length`` items.

    In training that is all of training, what is asked for too: the model leaves a part of it out.
    """

    def __init__(self, dataset: Dataset, device: torch.device | str, length: int) -> None:
        super().__init__(dataset, device)
        self.length = length
        self.histories = self._until("train")
        self._known: dict[str, tuple[CSR, int]] = {}

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Rank the catalogue, less what was seen in earlier splits, for each user of the split."""
        if split == "train":
            raise UserError("a model of histories reads the items of training: evaluate it on validation or test")
        return super().evaluate(model, split, candidates, **policies)

    def queries(self, split: str, query: Tensor) -> Tensor:
        """What these users turned to last, before the split."""
        if split not in self._known:
            before = SPLITS[: max(1, SPLITS.index(split))]
            known = self._until(*(name for name in before if name in self.dataset))
            counts = known.lengths
            self._known[split] = known, min(self.length, int(counts.max()) if counts.numel() else 0)
        known, width = self._known[split]
        return known.last(query, self.length, width)

    def _bytes_a_query(self, model: Any, split: str) -> int:
        return int(getattr(model, "query_bytes", self.length * _STATE_BYTES))

    def _until(self, *names: str) -> CSR:
        """What users turned to in these splits."""
        found, label = dataset_histories(self.dataset, names)
        return CSR(found.offsets, {"item": found.item, "label": label}).to(self.device)


class SequenceFeed(HistoryFeed):
    """Recommendation by what users turned to before, in order: every entry of a history is a query.

    ``relevance`` is that of the entries, whose numbers are those of queries, and ``users`` that of the users, for
    ``SequenceSampler``.
    """

    def __init__(
        self,
        dataset: Dataset,
        device: torch.device | str,
        length: int,
        following: int = 1,
        gain: str = "exp2",
        windows: str = "last",
    ) -> None:
        super().__init__(dataset, device, length)
        self.users, self.following, self.windows = self.relevance, following, windows
        self.relevance = next_items(self.histories, self.users.num_items, following, gain)

    @property
    def rows(self) -> int:
        """How many entries an epoch visits: ``length`` of each history, or all of a shorter one."""
        return int(self.histories.lengths.clamp(max=self.length).sum())

    @property
    def longest(self) -> int:
        """Most entries that one user has in a batch."""
        return int(self.histories.lengths.clamp(max=self.length).max())

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """Scores of a slate of training; one pass of the model over each user's history serves all his rows.

        A slate that does not say what to read: it ends with the history or, if windows are random, with the user's last
        row, and an entry that is too old for that is scored as if there were nothing before it.
        """
        state = _states(model, *self._read(slate))
        if slate.item.shape[0] == 1:
            answer: Tensor = model.score(state, slate.item)
            return answer
        own = slate.column.shape[1]  # what rows share comes after what is each one's
        return torch.cat([model.score(state, slate.item[:, :own]), model.score(state, slate.item[:1, own:])], dim=1)

    def _read(self, slate: Slate) -> tuple[Tensor, Tensor, Tensor]:
        """Which of some histories [U, T] each row of a slate is about, [B], and after how many of its items, [B]."""
        if isinstance(slate, HistorySlate):
            return slate.row, slate.place, self.histories.span(slate.begin, slate.count, slate.width)
        user = torch.searchsorted(self.histories.offsets, slate.query, right=True) - 1
        users, row, count = user.unique_consecutive(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
        end = slate.query[count.cumsum(0) - 1] + 1 if self.windows == "random" else None
        begin, history = last_windows(self.histories, users, self.length, end)
        return row, (slate.query - begin[row]).clamp_min(0), history


def _states(model: Any, row: Tensor, place: Tensor, history: Tensor) -> Tensor:
    """[B, dim]: the states of histories [U, T], of those that ``row`` names after ``place`` items.

    On a CPU histories of like lengths are read together, up to twice as long as one another, which spares it most of
    what only fills up; a GPU would rather do that than more and smaller steps.
    """
    if history.device.type != "cpu":
        states: Tensor = model.states(history)
        return states[row, place]
    count = (history >= 0).sum(1)
    kind = torch.frexp(count.float()).exponent  # of 4 to 7 it is 3
    rows, found = [], []
    for one in sorted(set(kind.tolist())):
        users = (kind == one).nonzero().squeeze(1)
        number = torch.empty_like(count)
        number[users] = torch.arange(users.shape[0])
        own = (kind[row] == one).nonzero().squeeze(1)
        rows.append(own)
        found.append(model.states(history[users, : int(count[users].max())])[number[row[own]], place[own]])
    return torch.cat(found)[torch.cat(rows).argsort()]


class ListFeed:
    """Search: each query brings documents with features; evaluation ranks full lists, however training cut them."""

    def __init__(self, dataset: Dataset, device: torch.device | str) -> None:
        self.dataset, self.device = dataset, torch.device(device)
        self.relevance = dataset.relevance("train", device=self.device)
        self._train = self._split("train").features.to(self.device)

    def _split(self, name: str) -> ListSplit:
        part = self.dataset[name]
        assert isinstance(part, ListSplit)
        return part

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """``model(features, mask)`` for a slate of training."""
        answer: Tensor = model(self._train[slate.item].float(), slate.mask)
        return answer

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Rank each query's documents, all of them."""
        if candidates != "all":
            raise UserError(
                f"candidates is {candidates}; expected 'all': queries of a search task bring their own lists"
            )
        part = self._split(split)
        scores = torch.empty(part.label.shape[0])
        with torch.no_grad():
            for first, last in _groups(part.lengths.tolist(), part.features.shape[1]):
                start, lengths = int(part.offsets[first]), part.lengths[first:last]
                place = torch.arange(int(lengths.max()))
                mask = place < lengths.unsqueeze(1)
                rows = (part.offsets[first:last].unsqueeze(1) + place).clamp(max=part.label.shape[0] - 1)
                found = model(part.features[rows].float().to(self.device), mask.to(self.device))
                scores[start : start + int(lengths.sum())] = found.float().cpu()[mask]
        return evaluate_lists(scores, part.label, lengths=part.lengths, **policies)


def _groups(lengths: Sequence[int], num_features: int) -> list[tuple[int, int]]:
    """Neighbouring lists that fit into memory when padded to the longest of them."""
    groups, first, longest = [], 0, 1
    for at, length in enumerate(lengths):
        longest = max(longest, length)
        if at > first and (at + 1 - first) * longest * num_features > _LIST_VALUES:
            groups.append((first, at))
            first, longest = at, max(1, length)
    if len(lengths) > first:
        groups.append((first, len(lengths)))
    return groups
