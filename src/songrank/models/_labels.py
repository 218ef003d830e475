"""Parts of models that label texts: a head with one row per label, and tables of word vectors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import check_shape, fail
from songrank.models.base import DotProductModel


class LabelModel(DotProductModel):
    """score_label = w_label · z(text) + b_label, with w and b the weight and bias of ``head``."""

    head: Any

    @property
    def item_layer(self) -> nn.Linear:
        """The last layer: its weight has one row per label."""
        return self.head  # type: ignore[no-any-return]

    @property
    def item_bias(self) -> Tensor:
        """B."""
        return self.head.bias  # type: ignore[no-any-return]

    def reset_head(self) -> None:
        """Initialise w and b of all labels again; the layers below stay."""
        self.head.reset_parameters()


def word_table(
    vocabulary: int, dim: int, draw: Callable[[Tensor], object], embeddings: Tensor | None, *, freeze: bool
) -> nn.Embedding:
    """Word vectors, given or drawn; row 0, the padding, is 0."""
    if freeze and embeddings is None:
        fail("freeze", freeze, "embeddings to keep, or freeze=False")
    table = nn.Embedding(vocabulary, dim, padding_idx=0)
    with torch.no_grad():
        if embeddings is None:
            draw(table.weight)
        else:
            check_shape("embeddings", embeddings, tuple(table.weight.shape), meaning="[vocabulary, dim]")
            table.weight.copy_(embeddings)
        table.weight[0] = 0.0
    table.weight.requires_grad_(not freeze)
    return table
