"""A model of the next item of a user, from the sequence of previous items."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.options import Annotated, Choice, Count, Layers, checked
from songrank.core.packing import Packing
from songrank.models._attention import AttentionBlock, DistanceBias, GatedBlock, TimeBias, time_buckets
from songrank.models._inputs import check_history, check_times, last_columns, last_items, table_rows
from songrank.models._layers import Dropout, Dropped
from songrank.models.base import Capabilities, DotProductModel, Scoring, Temperature

History = Tensor | tuple[Tensor, Tensor]
"""Items [B, T] of histories, or pairs (items, times)."""

_STD = 0.02


@dataclass(frozen=True, eq=False)
class PackedHistories:
    """U histories, each a start position and one position per item, at the places of ``packing``.

    Args:
        packing: the places of positions.
        item: [T], the item of each position, 0 at starts and padding.
        place: [T], the number of the item in its history, from 1, 0 at starts and padding.
        count: [U], the number of items of each history.
        time: [T], the time of each position; of a start, that of the first item.
    """

    packing: Packing
    item: Tensor
    place: Tensor
    count: Tensor
    time: Tensor | None = None


class SequenceModel(DotProductModel):
    """A causal transformer over a user's last items (Kang & McAuley, *Self-Attentive Sequential Recommendation*, 2018).

    With e_i the vector of item i, p_t of position t, s a start vector, and rows x = (s, e_1 + p_1, …, e_n + p_n),

        z = norm(blocks(x)),      score of item j after t items = z_t · e_j

    or cos(z_t, e_j) / τ with ``scoring="cosine"``.

    A position attends to itself and previous positions, so one pass gives the state after each item, and each state is
    a query with a known next item. State 0 is for users without history. There are no user embeddings, so any history
    is a query.

    Histories are rows [B, T] of items, oldest first, padded with −1 at the end, truncated to the last ``length``. A
    model with ``time_bias`` takes pairs (items, times): times are whole numbers of any unit, int64 [B, T].

    With ``positions="end"``, p is counted from the last item of the history that is read, so a state depends on the
    number of items after it: states before the last differ from those of shorter histories.

    Args:
        num_items: N.
        dim: width of all vectors.
        blocks: number of attention blocks, see :class:`songrank.models.ContextAwareRanker`.
        heads: attention heads, a divisor of ``dim``.
        length: maximum number of items per history.
        feed_forward: width of feed-forward layers; 4 · ``dim`` by default.
        dropout: dropout probability, within blocks and of x.
        positions: ``"start"``: p_t, counted from the oldest item; ``"end"``: counted from the newest; or ``"none"``.
        relative: whether to add a learned bias by distance i − j to attention scores, for each block and head.
        time_bias: whether to add a learned bias by time difference t_i − t_j to attention scores, for each block.
        gates: gated residuals and SwiGLU layers in blocks (LiGR), for deep models.
        embedding_norm: whether to normalise the rows x before their dropout.
        embedding_dropout: dropout probability of x; ``dropout`` by default.
        scoring: ``"dot"`` or ``"cosine"``.
        temperature: τ of the cosine, or its initial value.
        learn_temperature: whether to learn τ.

    >>> from songrank.models import SequenceModel
    >>> model = SequenceModel(num_items=20, dim=8, length=4).eval()
    >>> history = torch.tensor([[3, 5, 7], [2, -1, -1], [-1, -1, -1]])
    >>> model.score_all(history).shape, model(history, torch.tensor([[1, 2]])).shape
    (torch.Size([3, 20]), torch.Size([3, 2]))
    """

    capabilities = Capabilities("sequence", item_tables=("item.weight",), dot_product=True, packed=True)
    history_length: int

    @checked
    def __init__(
        self,
        num_items: Count,
        dim: Count = 128,
        blocks: Annotated[int, Layers()] = 2,
        heads: Count = 2,
        length: Count = 200,
        feed_forward: Count | None = None,
        dropout: Dropped = 0.2,
        positions: Annotated[str, Choice(("start", "end", "none"))] = "start",
        relative: bool = False,
        time_bias: bool = False,
        gates: bool = False,
        embedding_norm: bool = False,
        embedding_dropout: Dropped | None = None,
        scoring: Scoring = "dot",
        temperature: Temperature = 1.0,
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(scoring, temperature, learn_temperature)
        wide, states = feed_forward or 4 * dim, length + 1
        self.num_items, self.history_length, self.reads_times = num_items, length, time_bias
        of_scores = heads * states + 8 * time_bias * states
        self.query_bytes = 4 * states * (8 * dim + (1 + gates) * wide + of_scores)
        self.from_end = positions == "end"
        self.item = nn.Embedding(num_items, dim)
        self.place = None if positions == "none" else nn.Parameter(torch.empty(length, dim))
        self.start = nn.Parameter(torch.empty(dim))
        block = GatedBlock if gates else AttentionBlock
        self.blocks = nn.ModuleList(block(dim, heads, wide, dropout, causal=True) for _ in range(blocks))
        self.relative = nn.ModuleList(DistanceBias(heads, length) for _ in range(blocks)) if relative else None
        self.passed = nn.ModuleList(TimeBias() for _ in range(blocks)) if time_bias else None
        self.input_norm = nn.LayerNorm(dim) if embedding_norm else None
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout if embedding_dropout is None else embedding_dropout)
        for weight in (self.item.weight, self.place, self.start):
            if weight is not None:
                nn.init.normal_(weight, std=_STD)

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise unless ``heads`` divides ``dim``, and for a temperature without the cosine."""
        AttentionBlock.check_together(options)
        super().check_together(options)

    def reset_head(self) -> None:
        """Reset gain and shift of the last norm to 1 and 0, and a learned τ; item vectors are kept."""
        self.reset_temperature()
        self.norm.reset_parameters()

    def states(self, history: History) -> Tensor:
        """Z [B, T + 1, dim]: the states before the first and after each item; T is at most ``length``.

        States of padding are undefined.
        """
        history, time = history if isinstance(history, tuple) else (history, None)
        check_history(history)
        length = history.shape[1]
        if length > self.history_length:
            expected = f"at most length={self.history_length} items; forward and score_all truncate it"
            fail("history", list(history.shape), expected)
        if self.reads_times:
            check_times(time, history)
        rows = self.item(history.clamp_min(0)) + self._places(history)
        x = torch.cat([self.start.expand(history.shape[0], 1, -1), rows], dim=1)
        x = self.dropout(x if self.input_norm is None else self.input_norm(x))
        for block, bias in zip(self.blocks, self._biases(length + 1, time), strict=True):
            x = block(x, bias)
        found: Tensor = self.norm(x)
        return found

    def packed_states(self, given: PackedHistories) -> Tensor:
        """[T, dim]: :meth:`states` of packed histories, without work for most padding; padding is undefined."""
        packing, read = given.packing, given.place > 0
        rows = table_rows(self.item.weight, given.item)
        if self.place is not None:
            place = given.place
            if self.from_end:
                place = given.count[packing.history.clamp_min(0)] - given.place + 1
            rows = rows + table_rows(self.place, (place - 1).clamp(0, self.history_length - 1))
        x = torch.where(read.unsqueeze(1), rows, self.start)
        x = self.dropout(x if self.input_norm is None else self.input_norm(x))
        for block, biases in zip(self.blocks, self._packed_biases(given), strict=True):
            x = block(x, biases, packing.groups)
        found: Tensor = self.norm(x)
        return found

    def _packed_biases(self, given: PackedHistories) -> list[list[Tensor | None]]:
        """The biases of attention scores of each group, by block; None for causal attention without biases."""
        packing, by_group = given.packing, []
        sizes = [group.positions for group in packing.groups]
        none = (None,) * len(sizes)
        times = none if given.time is None else torch.split(given.time, sizes)
        for group, history, time in zip(packing.groups, torch.split(packing.history, sizes), times, strict=True):
            biases = self._all_biases(group.width, None if time is None else time.view(group))
            if packing.shared:
                own = history.view(group)
                apart = (own.unsqueeze(1) != own.unsqueeze(2)).unsqueeze(1)
                if all(bias is None for bias in biases):
                    past = torch.ones(group.width, group.width, dtype=torch.bool, device=own.device).tril()
                    biases = [past & ~apart] * len(biases)
                else:
                    biases = [bias if bias is None else bias.masked_fill(apart, -torch.inf) for bias in biases]
            by_group.append(biases)
        return [list(biases) for biases in zip(*by_group, strict=True)]

    def _places(self, history: Tensor) -> Tensor | float:
        """The position vectors of items, 0 without positions."""
        if self.place is None or not self.from_end:
            return 0.0 if self.place is None else self.place[: history.shape[1]]
        after = (history >= 0).sum(1, keepdim=True) - 1 - torch.arange(history.shape[1], device=history.device)
        return table_rows(self.place, after.clamp_min(0))

    def _biases(self, rows: int, time: Tensor | None) -> list[Tensor | None]:
        """The biases of attention scores of each block; None for causal attention without biases."""
        if self.passed is not None:
            assert time is not None
            time = torch.cat([time[:, :1], time], dim=1) if time.shape[1] else time.new_zeros(time.shape[0], 1)
        return self._all_biases(rows, time)

    def _all_biases(self, rows: int, time: Tensor | None) -> list[Tensor | None]:
        """The same, from the time of each position [B, L]."""
        biases: list[Tensor | None] = [None] * len(self.blocks)
        if self.relative is not None:
            biases = [bias(rows) for bias in self.relative]
        if self.passed is None:
            return biases
        assert time is not None
        buckets, future = time_buckets(time), torch.ones(rows, rows, dtype=torch.bool, device=time.device).triu(1)
        found = [bias(buckets).masked_fill(future, -torch.inf) for bias in self.passed]
        return [one if other is None else one + other for one, other in zip(found, biases, strict=True)]

    @property
    def item_layer(self) -> nn.Embedding:
        """The item vectors, for input and output."""
        return self.item

    def query_vectors(self, query: History) -> Tensor:
        """[B, dim]: the states after the histories [B, T]."""
        items, times = query if isinstance(query, tuple) else (query, None)
        history, count = last_items(items, self.history_length)
        rows = torch.arange(history.shape[0], device=history.device)
        if times is None:
            return self.states(history)[rows, count]
        return self.states((history, last_columns(times, (items >= 0).sum(1), self.history_length)))[rows, count]
