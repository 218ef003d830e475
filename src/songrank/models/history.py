"""A model of what a user likes from what he turned to, in whatever order."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.options import Annotated, Whole, checked
from songrank.models._histories import check_history, last_items
from songrank.models._layers import Dropout, Dropped
from songrank.models.base import DotProductModel
from songrank.models.capabilities import Capabilities

_STD = 0.05


class HistoryModel(DotProductModel):
    """An autoencoder of sets of items, in the form of two towers (Liang et al., *Mult-DAE*, WWW 2018).

    With a_j the vector by which item j is read and v_i that by which item i is scored,

        z = tanh(b + Σ_{j ∈ H} a_j / √|H|),      score of item i = z · v_i + c_i

    In training a share of H is left out, else the model would learn to name what it was told. There is no table of
    users: whoever brings a history gets an answer, and who has none is answered by tanh(b) and c, the popular items. An
    item that comes twice counts twice.

    Histories are rows [B, T] of items in any order, filled up with −1 after the last one; of more than ``length`` items
    the last are read.

    Args:
        num_items: N.
        dim: width of all vectors.
        length: most items that are read.
        dropout: share of the items of a history that is left out in training.

    >>> from songrank.models import HistoryModel
    >>> model = HistoryModel(num_items=20, dim=8).eval()
    >>> history = torch.tensor([[3, 5, 7], [7, 3, 5], [-1, -1, -1]])
    >>> model.score_all(history).shape, torch.allclose(model.score_all(history)[0], model.score_all(history)[1])
    (torch.Size([3, 20]), True)

    """

    capabilities = Capabilities("history", item_tables=("item_read.weight", "item.weight", "bias"), dot_product=True)

    @checked
    def __init__(
        self,
        num_items: Annotated[int, Whole()],
        dim: Annotated[int, Whole()] = 64,
        length: Annotated[int, Whole()] = 500,
        dropout: Dropped = 0.5,
    ) -> None:
        super().__init__()
        self.num_items, self.length = num_items, length
        self.item_read = nn.Embedding(num_items, dim)
        self.shift = nn.Parameter(torch.zeros(dim))
        self.item = nn.Embedding(num_items, dim)
        self.bias = nn.Parameter(torch.zeros(num_items))
        self.dropout = Dropout(dropout)
        for table in (self.item_read, self.item):
            nn.init.normal_(table.weight, std=_STD)

    @property
    def history_length(self) -> int:
        """Most items that are read of a history."""
        return self.length

    @property
    def query_bytes(self) -> int:
        """What it takes to score one history without gradients, roughly, besides the scores."""
        return 16 * self.length + 4 * self.shift.shape[0]

    def reset_head(self) -> None:
        """Set c to 0: items are scored by their vectors, which stay."""
        nn.init.zeros_(self.bias)

    @property
    def item_layer(self) -> nn.Embedding:
        """The vectors by which items are scored."""
        return self.item

    @property
    def item_bias(self) -> Tensor:
        """How popular each item is."""
        return self.bias

    def query_vectors(self, query: Tensor) -> Tensor:
        """Z [B, dim] of the histories [B, T]."""
        check_history(query)
        history, _ = last_items(query, self.length)
        if history.shape[1] == 0:
            history = F.pad(history, (0, 1), value=-1)
        share: Tensor = self.dropout((history >= 0).to(self.shift.dtype))
        share = share / share.norm(dim=1, keepdim=True).clamp_min(1.0)
        read = F.embedding_bag(history.clamp_min(0), self.item_read.weight, mode="sum", per_sample_weights=share)
        return torch.tanh(read + self.shift)
