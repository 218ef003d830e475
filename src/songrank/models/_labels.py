"""What models that label texts share: a head with one row per label, and tables of word vectors."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import check_shape, fail
from songrank.models.base import DotProductModel


class LabelModel(DotProductModel):
    """score_label = w_label · z(text) + b_label, with w and b the weight and bias of ``head``."""

    head: Any

    @abstractmethod
    def encode(self, query: Any) -> Tensor:
        """z, [B, D]."""

    def query_vectors(self, query: Any) -> Tensor:
        """z, [B, D]."""
        return self.encode(query)

    @property
    def item_layer(self) -> nn.Linear:
        """The last layer: its weight has one row per label."""
        return self.head  # type: ignore[no-any-return]

    @property
    def item_bias(self) -> Tensor:
        """B."""
        return self.head.bias  # type: ignore[no-any-return]

    def reset_head(self) -> None:
        """Draw all labels' w and b again; the layers below stay."""
        self.head.reset_parameters()


def word_table(
    vocabulary: int, dim: int, draw: Callable[[Tensor], object], embeddings: Tensor | None, *, freeze: bool
) -> nn.Embedding:
    """Word vectors, given or drawn; row 0, which pads, is 0."""
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


def check_words(tokens: Tensor) -> None:
    """Raise unless ``tokens`` holds word numbers [B, T], 0 after the last word."""
    if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.shape[1] == 0:
        fail("query", getattr(tokens, "shape", type(tokens).__name__), "word numbers, of shape [B, T]")
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        fail("query", tokens.dtype, "word numbers, of type torch.int64", TypeError)
