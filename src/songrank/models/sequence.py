"""A model of the next item of a user, from the sequence of previous items."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.options import Count, checked
from songrank.models._inputs import check_history, last_items
from songrank.models._layers import AttentionBlock, Dropout, Dropped
from songrank.models.base import Capabilities, DotProductModel, Scoring, Temperature

_STD = 0.02


class SequenceModel(DotProductModel):
    """A causal transformer over a user's last items (Kang & McAuley, *Self-Attentive Sequential Recommendation*, 2018).

    With e_i the vector of item i, p_t of position t, s a start vector, and rows x = (s, e_1 + p_1, …, e_n + p_n),

        z = norm(blocks(x)),      score of item j after t items = z_t · e_j

    or cos(z_t, e_j) / τ with ``scoring="cosine"``.

    A position attends to itself and previous positions, so one pass gives the state after each item, and each state is
    a query with a known next item. State 0 is for users without history. There are no user embeddings, so any history
    is a query.

    Histories are rows [B, T] of items, oldest first, padded with −1 at the end, truncated to the last ``length``.

    Args:
        num_items: N.
        dim: width of all vectors.
        blocks: number of attention blocks, see :class:`songrank.models.ContextAwareRanker`.
        heads: attention heads, a divisor of ``dim``.
        length: maximum number of items per history.
        feed_forward: width of feed-forward layers; 4 · ``dim`` by default.
        dropout: dropout probability, within blocks and of x.
        scoring: ``"dot"`` or ``"cosine"``.
        temperature: τ of the cosine, or its initial value.
        learn_temperature: whether to learn τ.

    >>> from songrank.models import SequenceModel
    >>> model = SequenceModel(num_items=20, dim=8, length=4).eval()
    >>> history = torch.tensor([[3, 5, 7], [2, -1, -1], [-1, -1, -1]])
    >>> model.score_all(history).shape, model(history, torch.tensor([[1, 2]])).shape
    (torch.Size([3, 20]), torch.Size([3, 2]))
    """

    capabilities = Capabilities("sequence", item_tables=("item.weight",), dot_product=True)
    history_length: int

    @checked
    def __init__(
        self,
        num_items: Count,
        dim: Count = 128,
        blocks: Count = 2,
        heads: Count = 2,
        length: Count = 200,
        feed_forward: Count | None = None,
        dropout: Dropped = 0.2,
        scoring: Scoring = "dot",
        temperature: Temperature = 1.0,
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(scoring, temperature, learn_temperature)
        wide, states = feed_forward or 4 * dim, length + 1
        self.num_items, self.history_length = num_items, length
        self.query_bytes = 4 * states * (8 * dim + wide + heads * states)
        self.item = nn.Embedding(num_items, dim)
        self.place = nn.Parameter(torch.empty(length, dim))
        self.start = nn.Parameter(torch.empty(dim))
        self.blocks = nn.ModuleList(AttentionBlock(dim, heads, wide, dropout, causal=True) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)
        for weight in (self.item.weight, self.place, self.start):
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

    def states(self, history: Tensor) -> Tensor:
        """Z [B, T + 1, dim]: the states before the first and after each item; T is at most ``length``.

        States of padding are undefined.
        """
        check_history(history)
        length = history.shape[1]
        if length > self.history_length:
            expected = f"at most length={self.history_length} items; forward and score_all truncate it"
            fail("history", list(history.shape), expected)
        rows = self.item(history.clamp_min(0)) + self.place[:length]
        x = self.dropout(torch.cat([self.start.expand(history.shape[0], 1, -1), rows], dim=1))
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.norm(x)
        return found

    @property
    def item_layer(self) -> nn.Embedding:
        """The item vectors, for input and output."""
        return self.item

    def query_vectors(self, query: Tensor) -> Tensor:
        """[B, dim]: the states after the histories [B, T]."""
        history, count = last_items(query, self.history_length)
        return self.states(history)[torch.arange(history.shape[0], device=history.device), count]
