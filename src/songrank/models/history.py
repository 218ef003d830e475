"""A model of the set of items in a user's interaction history."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.options import Count, checked
from songrank.models._inputs import last_items
from songrank.models._layers import Dropout, Dropped
from songrank.models.base import Capabilities, DotProductModel, Scoring, Temperature

_STD = 0.05


class HistoryModel(DotProductModel):
    """A denoising autoencoder of item sets, as a two-tower model (Liang et al., *Mult-DAE*, WWW 2018).

    With a_j the input vector and v_i the output vector of an item,

        z = tanh(b + Σ_{j ∈ H} a_j / √|H|),      score of item i = z · v_i + c_i

    or cos(z, v_i) / τ with ``scoring="cosine"``.

    Training drops items of H, so that the model does not learn to copy its input. There are no user embeddings, so any
    history is a query; an empty history is scored by tanh(b) and c, the popularity. Repeated items are summed.

    Histories are rows [B, T] of items in any order, padded with −1 at the end, truncated to the last ``length``.

    Args:
        num_items: N.
        dim: width of all vectors.
        length: maximum number of items per history.
        dropout: probability of dropping an item of a history in training.
        scoring: ``"dot"`` or ``"cosine"``, which has no c.
        temperature: τ of the cosine, or its initial value.
        learn_temperature: whether to learn τ.

    >>> from songrank.models import HistoryModel
    >>> model = HistoryModel(num_items=20, dim=8).eval()
    >>> history = torch.tensor([[3, 5, 7], [7, 3, 5], [-1, -1, -1]])
    >>> model.score_all(history).shape, torch.allclose(model.score_all(history)[0], model.score_all(history)[1])
    (torch.Size([3, 20]), True)
    """

    capabilities = Capabilities("history", item_tables=("item_read.weight", "item.weight", "bias"), dot_product=True)
    history_length: int

    @checked
    def __init__(
        self,
        num_items: Count,
        dim: Count = 64,
        length: Count = 500,
        dropout: Dropped = 0.5,
        scoring: Scoring = "dot",
        temperature: Temperature = 1.0,
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(scoring, temperature, learn_temperature)
        self.num_items, self.history_length = num_items, length
        self.query_bytes = 16 * length + 4 * dim
        self.item_read = nn.Embedding(num_items, dim)
        self.shift = nn.Parameter(torch.zeros(dim))
        self.item = nn.Embedding(num_items, dim)
        self.bias = None if self.cosine else nn.Parameter(torch.zeros(num_items))
        self.dropout = Dropout(dropout)
        for table in (self.item_read, self.item):
            nn.init.normal_(table.weight, std=_STD)

    def reset_head(self) -> None:
        """Set c to 0 and reset a learned τ; item vectors are kept."""
        self.reset_temperature()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @property
    def item_layer(self) -> nn.Embedding:
        """The output vectors of items."""
        return self.item

    @property
    def item_bias(self) -> Tensor | None:
        """The popularity of each item; none for the cosine."""
        return self.bias

    def query_vectors(self, query: Tensor) -> Tensor:
        """Z [B, dim] of the histories [B, T]."""
        history, _ = last_items(query, self.history_length)
        if history.shape[1] == 0:
            history = F.pad(history, (0, 1), value=-1)
        share: Tensor = self.dropout((history >= 0).to(self.shift.dtype))
        share = share / share.norm(dim=1, keepdim=True).clamp_min(1.0)
        read = F.embedding_bag(history.clamp_min(0), self.item_read.weight, mode="sum", per_sample_weights=share)
        return torch.tanh(read + self.shift)
