"""A model of what a user turns to next, from what he turned to before, in order."""

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.options import Annotated, Whole, checked
from songrank.models._attention import AttentionBlock
from songrank.models._histories import check_history, last_items
from songrank.models._items import check_item, item_scores
from songrank.models._layers import Dropout, Dropped
from songrank.models.base import DotProductModel
from songrank.models.capabilities import Capabilities

_STD = 0.02


class SequenceModel(DotProductModel):
    """A causal transformer over a user's last items (Kang & McAuley, *Self-Attentive Sequential Recommendation*, 2018).

    With e_i the vector of item i, p_t that of place t, s that of a start, and x the rows (s, e_1 + p_1, …, e_n + p_n),

        z = norm(blocks(x)),      score of item j after t items = z_t · e_j

    A place sees itself and those before it, so one pass gives the state after each item, every one of them a query
    whose next item is known. State 0 has seen nothing: it answers for users without a history. There is no table of
    users: whoever brings a history gets an answer.

    Histories are rows [B, T] of items, oldest first, filled up with −1 after the last one; of more than ``length``
    items the last are read.

    Args:
        num_items: N.
        dim: width of all vectors.
        blocks: of attention, see :class:`songrank.models.ContextAwareRanker`.
        heads: attention heads, a divisor of ``dim``.
        length: most items that are read.
        feed_forward: width within a block; 4 · ``dim`` if not given.
        dropout: share of cells dropped in training, within blocks and of x.

    >>> from songrank.models import SequenceModel
    >>> model = SequenceModel(num_items=20, dim=8, length=4).eval()
    >>> history = torch.tensor([[3, 5, 7], [2, -1, -1], [-1, -1, -1]])
    >>> model.score_all(history).shape, model(history, torch.tensor([[1, 2]])).shape
    (torch.Size([3, 20]), torch.Size([3, 2]))
    >>> torch.allclose(model.states(history)[0, 1], model.states(torch.tensor([[3]]))[0, 1], atol=1e-5)
    True

    """

    capabilities = Capabilities("sequence", item_tables=("item.weight",), dot_product=True)
    check_together = AttentionBlock.check_together

    @checked
    def __init__(
        self,
        num_items: Annotated[int, Whole()],
        dim: Annotated[int, Whole()] = 128,
        blocks: Annotated[int, Whole()] = 2,
        heads: Annotated[int, Whole()] = 2,
        length: Annotated[int, Whole()] = 200,
        feed_forward: Annotated[int, Whole()] | None = None,
        dropout: Dropped = 0.2,
    ) -> None:
        super().__init__()
        self.num_items, self.length = num_items, length
        wide = 4 * dim if feed_forward is None else feed_forward
        self.item = nn.Embedding(num_items, dim)
        self.place = nn.Parameter(torch.empty(length, dim))
        self.start = nn.Parameter(torch.empty(dim))
        self.blocks = nn.ModuleList(AttentionBlock(dim, heads, wide, dropout, causal=True) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)
        for weight in (self.item.weight, self.place, self.start):
            nn.init.normal_(weight, std=_STD)

    @property
    def history_length(self) -> int:
        """Most items that are read of a history."""
        return self.length

    @property
    def query_bytes(self) -> int:
        """What it takes to score one history without gradients, roughly, besides the scores."""
        dim, block = self.start.shape[0], self.blocks[0]
        assert isinstance(block, AttentionBlock)
        places = self.length + 1
        return 4 * places * (8 * dim + block.widen.out_features + block.heads * places)

    def reset_head(self) -> None:
        """Set the gain and shift of the last norm to 1 and 0: items are scored by their vectors, which stay."""
        self.norm.reset_parameters()

    def states(self, history: Tensor) -> Tensor:
        """Z [B, T + 1, dim]: the state after no item, after the first, and so on; T is at most ``length``.

        A state after a place without an item is of no use.
        """
        check_history(history)
        if history.shape[1] > self.length:
            fail("history", list(history.shape), f"at most length={self.length} items; forward and score_all cut it")
        rows = self.item(history.clamp_min(0)) + self.place[: history.shape[1]]
        start = self.start.expand(history.shape[0], 1, -1)
        x = self.dropout(torch.cat([start, rows], dim=1))
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.norm(x)
        return found

    def score(self, state: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] in the states [B, dim]."""
        check_item(item, state.shape[0])
        return item_scores(state, self.item, item)

    @property
    def item_layer(self) -> nn.Embedding:
        """Their vectors, by which they are read and scored."""
        return self.item

    def query_vectors(self, query: Tensor) -> Tensor:
        """[B, dim]: the states after the histories [B, T]."""
        check_history(query)
        history, count = last_items(query, self.length)
        return self.states(history)[torch.arange(history.shape[0], device=history.device), count]
