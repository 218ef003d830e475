"""Words of texts, as models of texts read them: rows [B, T] of word numbers, 0 after the last word."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from songrank.core.checks import check_int, check_shape, fail


def word_table(
    vocabulary: int, dim: int, draw: Callable[[Tensor], object], embeddings: Tensor | None, *, freeze: bool
) -> nn.Embedding:
    """Vectors of words, those given or drawn ones; row 0, which pads, is 0."""
    if freeze and embeddings is None:
        fail("freeze", freeze, "embeddings to keep, or freeze=False")
    table = nn.Embedding(check_int("vocabulary", vocabulary, 2), check_int("dim", dim), padding_idx=0)
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
    """Raise unless ``tokens`` holds word numbers [B, T]."""
    if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.shape[1] == 0:
        fail("query", getattr(tokens, "shape", type(tokens).__name__), "word numbers, of shape [B, T]")
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        fail("query", tokens.dtype, "word numbers, of type torch.int64", TypeError)
