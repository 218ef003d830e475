"""Batch adapters of history models: a query is a user's interaction history."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.core.packing import Packing
from songrank.core.pairs import table_keys
from songrank.core.processes import Processes
from songrank.core.slate import Slate
from songrank.data import Dataset
from songrank.data.dataset import SPLITS
from songrank.data.histories import dataset_histories, history_rows
from songrank.losses.base import Traits
from songrank.metrics import Evaluation
from songrank.models.base import Query, RankingModel, capabilities_of
from songrank.models.blend import UserInput
from songrank.models.sequence import PackedHistories
from songrank.sampling import HistorySlate, SequenceSampler, last_windows, next_items
from songrank.sampling.next_items import target_windows, window_ends
from songrank.sampling.sequence_sampler import window_stride
from songrank.training.trainer.batch_adapters import CatalogueAdapter, DatasetAdapter, DocumentAdapter

if TYPE_CHECKING:
    from songrank.training.config.recipe import Batch

_STATE_BYTES = 16 * 1024  # of an item's state in a model without ``query_bytes``
_SLATE_BYTES = 2**28  # of scores at a time; a loss needs several times as much


def make_adapter(
    dataset: Dataset, device: torch.device | str = "cpu", model: torch.nn.Module | None = None, **options: Any
) -> DatasetAdapter:
    """Create the adapter for a data set and the queries of a model; ``options`` are those of :func:`adapter_for`."""
    length = None
    if isinstance(model, RankingModel):
        length, options = model.history_length, {"times": model.reads_times, **options}
    return adapter_for(dataset, device, capabilities_of(model).query, length, **options)


def adapter_for(
    dataset: Dataset,
    device: torch.device | str,
    query: Query,
    length: int | None,
    following: int = 1,
    gain: str = "exp2",
    windows: str = "last",
    evaluated: Sequence[str] = (),
    times: bool = False,
    packed: bool = False,
) -> DatasetAdapter:
    """Create the adapter for models of this kind of query, which read at most ``length`` items of a history.

    With ``times`` models read the times of items too.

    For sequences, the next ``following`` items are relevant in training (:func:`songrank.sampling.next_items`), and
    ``windows`` selects the targets and the part of a history to read (:class:`songrank.sampling.SequenceSampler`); if
    ``packed``, the model reads them without padding. The relevant items of the splits in ``evaluated`` are computed
    here, not at the first evaluation.
    """
    if dataset.form == "list":
        return DocumentAdapter(dataset, device)
    if query not in ("history", "sequence", "user"):
        return CatalogueAdapter(dataset, device, evaluated)
    assert length is not None
    if query == "user":
        return UserAdapter(dataset, device, length)
    if query == "sequence":
        return SequenceAdapter(dataset, device, length, following, gain, windows, times=times, packed=packed)
    return HistoryAdapter(dataset, device, length)


class HistoryAdapter(CatalogueAdapter):
    """Recommendation by interaction histories without order, of at most ``length`` items.

    In training a history also contains the relevant items: the model drops a part of it.
    """

    reads_ids = False

    def __init__(self, dataset: Dataset, device: torch.device | str, length: int, *, times: bool = False) -> None:
        super().__init__(dataset, device)
        self.length, self.times = length, times
        self._known: dict[str, tuple[CSR, int]] = {}

    @cached_property
    def histories(self) -> CSR:
        """The training histories of the users of this process."""
        return self._until("train")

    def evaluate(self, model: Any, split: str, candidates: int | str = "all", **policies: Any) -> Evaluation:
        """Rank the catalogue, without items seen in earlier splits, for each user of the split."""
        if split == "train":
            raise UserError("a history model reads the items of the training split; evaluate it on validation or test")
        return super().evaluate(model, split, candidates, **policies)

    def queries(self, split: str, query: Tensor) -> Any:
        """The last items of these users before a split, with their times if the model reads times."""
        if split not in self._known:
            before = SPLITS[: max(1, SPLITS.index(split))]
            known = self._until(*(name for name in before if name in self.dataset))
            counts = known.lengths
            self._known[split] = known, min(self.length, int(counts.max()) if counts.numel() else 0)
        known, width = self._known[split]
        query = query - self.own[0]
        end = known.offsets[query + 1]
        begin = torch.maximum(known.offsets[query], end - self.length)
        return history_rows(known, begin, end - begin, width, times=self.times)

    def _bytes_per_query(self, model: Any, split: str) -> int:
        return model.query_bytes if isinstance(model, RankingModel) else self.length * _STATE_BYTES

    def _until(self, *names: str) -> CSR:
        own = None if self.processes.world == 1 else self.own
        return dataset_histories(self.dataset, names, times=self.times, users=own).to(self.device)


class UserAdapter(HistoryAdapter):
    """Recommendation by ids of users and their interaction histories, for blends, which are not trained."""

    def queries(self, split: str, query: Tensor) -> UserInput:
        """The ids of these users and their last items before a split."""
        return UserInput(query, super().queries(split, query))


class SequenceAdapter(HistoryAdapter):
    """Recommendation by interaction histories in order: every entry of a history is a query.

    ``relevance`` is of the entries as queries; ``users`` is of the users, for ``SequenceSampler``.
    """

    entry_queries = True

    def __init__(
        self,
        dataset: Dataset,
        device: torch.device | str,
        length: int,
        following: int,
        gain: str,
        windows: str,
        *,
        times: bool = False,
        packed: bool = False,
    ) -> None:
        super().__init__(dataset, device, length, times=times)
        self.packed = packed
        self.users, self.following, self.windows = self.relevance, following, windows
        self.relevance = next_items(self.histories, self.users.num_items, following, gain)
        self.one_row_per_key = following == 1

    def share(self, processes: Processes) -> None:
        """Visit and evaluate the users of this process; histories are those of all, which number the entries."""
        whole = self.relevance
        super().share(processes)
        self.relevance = whole

    def memory_keys(self) -> Tensor:
        """User · items + item of each entry, in order."""
        part = self._split("train")
        return table_keys(part.pairs, part.num_items)

    @property
    def _stride(self) -> int | None:
        return window_stride(self.windows, self.length)

    @property
    def _entries_read(self) -> Tensor:
        return self.histories.lengths.clamp(max=self.length)

    @property
    def active_queries(self) -> int:
        """The number of users of an epoch; the queries of a loss are the entries of their histories."""
        return int((self.users.num_relevant > 0).sum())

    def sampler(self, batch: "Batch", **options: Any) -> SequenceSampler:
        """A sampler of slates: the next items in histories."""
        options |= {"query_weight": self.dataset["train"].weight, "targets": self.relevance, "windows": self.windows}
        options |= {"shared": self._shared, "packed": self.packed}
        if self.packed and self._shared is None and self.device.type == "cuda":
            options["partial"] = "pad"  # few shapes for CUDA graphs
        return SequenceSampler(self.users, self.histories, self.length, batch.size, batch.irrelevant, **options)

    def loss_sizes(self, batch: "Batch") -> dict[str, Any]:
        """The sizes of losses that follow from the data; queries are entries of histories."""
        # A step has the entries of some users: the same ones in each epoch, except with random windows
        rows = self._stride or self.length
        active = self.active_queries * rows
        if self.windows == "random":
            active = active * self.relevance.num_queries // max(1, int(self._entries_read.sum()))
        if self._stride is not None:
            active = target_windows(self.histories.offsets, rows)[0].shape[0] * rows
        sizes: dict[str, Any] = {"queries_per_batch": batch.size * rows, "active_queries": active}
        if self._shared is not None:
            entries = [int(self.histories.offsets[user]) for user in self.own]
            sizes |= {"query_range": tuple(entries)}
            sizes |= {"pair_range": tuple(int(self.relevance.indptr[entry]) for entry in entries)}
        return super().loss_sizes(batch) | sizes

    def rows_at_once(self, batch: "Batch", losses: Mapping[str, Traits]) -> int | None:
        """The number of history entries to score at a time, to bound memory; None for a whole batch."""
        windows = self.users.num_queries
        if self._stride is not None:
            windows = target_windows(self.histories.offsets, self._stride)[0].shape[0]
        users = min(batch.size, windows)
        if batch.length is not None:
            raise UserError(f"batch.length is {batch.length}; expected none: for histories, set model.length")
        columns = self.users.num_items
        if batch.irrelevant != "all":
            columns = min(columns, self.following + int(batch.irrelevant))
        squared = [name for name, traits in losses.items() if traits.cost == "O(L²)"]
        rows = _SLATE_BYTES // (4 * columns * (columns if squared else 1))
        longest = 1 if self.windows == "prefix" else int(self._entries_read.max())
        most = rows // longest
        if users <= most:
            return None
        whole = [name for name, traits in losses.items() if traits.whole_batch]
        if most > 0 and not whole:
            return rows
        room = _SLATE_BYTES // (4 * longest * (users if whole else 1))  # for the items of a row
        few = min(2000, (math.isqrt(room) if squared else room) - self.following)
        ways = [f"batch.irrelevant={few}"] if 0 < few < columns - self.following else []
        ways += [f"batch.queries={most}"] if most > 0 else []
        size = f"{users:,} users × {longest:,} entries" if most > 0 else f"{longest:,} entries of one user"
        items = f"{columns:,} items{f' squared (for {min(squared)})' if squared else ''}"
        raise UserError(
            f"batch.irrelevant is {batch.irrelevant}: scores of {size} × {items} exceed "
            f"{_SLATE_BYTES / 1e9:.2f} GB{f', and {whole[0]} needs the whole batch' if most > 0 else ''}; "
            f"use {' or '.join(ways) or 'a smaller model.length'}"
        )

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """Scores of a training slate; one pass of the model over a user's history serves all rows of the user.

        For a slate that is not a ``HistorySlate``, the part to read ends with the history; with random windows, with
        the user's last row; with sliding windows and prefixes, with the row's window. An entry before that part is
        scored as if nothing preceded it.
        """
        state = self._states(model, slate)
        if slate.item.shape[0] == 1:
            answer: Tensor = model.score(state, slate.item)
            return answer
        own = slate.column.shape[1]  # shared columns follow the row's own
        return torch.cat([model.score(state, slate.item[:, :own]), model.score(state, slate.item[:1, own:])], dim=1)

    def _states(self, model: Any, slate: Slate) -> Tensor:
        """[B, dim]: the states of the rows of a slate."""
        if isinstance(slate, HistorySlate) and slate.packing is not None:
            packed: Tensor = model.packed_states(self._packed(slate, slate.packing))
            return packed.index_select(0, slate.packing.start[slate.row] + slate.place)
        row, place, history = self._read(slate)
        states: Tensor = model.states(history)
        return states[row, place]

    def _packed(self, slate: HistorySlate, packing: Packing) -> PackedHistories:
        """The model's input for a packed slate."""
        user = packing.history.clamp_min(0)
        place = torch.arange(user.shape[0], device=user.device) - packing.start[user]
        place = torch.where(packing.history >= 0, place, 0)
        at, items = slate.begin[user] + place - 1, self.histories["item"]
        item = torch.where(place > 0, items[at.clamp_min(0)].long(), 0)
        time = None
        if self.times:
            first = torch.where(place > 0, at, slate.begin[user])
            time = self.histories["time"][first.clamp(max=items.shape[0] - 1)]
        return PackedHistories(packing, item, place, slate.count, time)

    def _read(self, slate: Slate) -> tuple[Tensor, Tensor, Any]:
        """The history of each row [B], the number of items before it [B], and the model's input for U histories."""
        if isinstance(slate, HistorySlate):
            read = slate.begin, slate.count, slate.width
            return slate.row, slate.place, history_rows(self.histories, *read, times=self.times)
        offsets, end = self.histories.offsets, None
        if self._stride is not None:
            end, row = window_ends(offsets, slate.query, self._stride).unique(return_inverse=True)  # type: ignore[no-untyped-call]
            users = torch.searchsorted(offsets, end - 1, right=True) - 1
        else:
            user = torch.searchsorted(offsets, slate.query, right=True) - 1
            users, row, count = user.unique_consecutive(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
            end = slate.query[count.cumsum(0) - 1] + 1 if self.windows == "random" else None
        begin, items = last_windows(self.histories, users, self.length, end)
        times = last_windows(self.histories, users, self.length, end, "time")[1] if self.times else None
        history = items if times is None else (items, times)
        return row, (slate.query - begin[row]).clamp_min(0), history
