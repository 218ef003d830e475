"""Shared layers: hidden layers, dropout, sparse features and word vectors."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import check_shape, fail
from songrank.core.options import Annotated, Choice, Number

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}

Features = Tensor | tuple[Tensor, Tensor, Tensor]
"""B rows of features: dense [B, F], sparse CSR [B, F], or its parts (indices, offsets [B + 1], values)."""

Dropped = Annotated[float, Number(0.0, 1.0, high_open=True)]
"""Dropout probability."""
Activation = Annotated[str, Choice(tuple(ACTIVATIONS))]


class Dropout(nn.Dropout):
    """``nn.Dropout`` that draws four random numbers at a time on a CPU, four times as fast.

    The keep probability is rounded to a multiple of 2⁻¹⁶, and kept values are divided by it.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training mode."""
        kept = round((1.0 - self.p) * 2**16)
        if not self.training or self.inplace or input.device.type != "cpu" or not 0 < kept < 2**16:
            return super().forward(input)
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return super().forward(input)
        words = torch.empty((input.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        quarters = words.view(torch.int16)[: input.numel()].view(input.shape)
        return input * (quarters < kept - 2**15).to(input.dtype).mul_(2**16 / kept)


def bend(dropout: float, activation: str = "relu", *, inplace: bool = False) -> nn.Sequential:
    """Activation and dropout after a linear layer."""
    return nn.Sequential(nn.ReLU(inplace) if inplace else ACTIVATIONS[activation](), Dropout(dropout))


def hidden_layers(width: int, sizes: Sequence[int], dropout: float, activation: str = "relu") -> nn.Sequential:
    """Linear, activation and dropout for each size."""
    pairs = pairwise((width, *sizes))
    return nn.Sequential(*(nn.Sequential(nn.Linear(a, b), *bend(dropout, activation)) for a, b in pairs))


class FeatureLinear(nn.Module):
    """x W + b, for dense or sparse rows x, without densifying sparse rows.

    The weight is [F, width], the transpose of ``nn.Linear``, so a sparse row gives a weighted sum of its rows.
    """

    def __init__(self, num_features: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_features, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√F, as in ``nn.Linear``."""
        bound = self.weight.shape[0] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, features: Features) -> Tensor:
        """[B, width]."""
        if isinstance(features, Tensor) and features.layout == torch.strided:
            self._check_width(features)
            return F.linear(features.to(self.weight.dtype), self.weight.T, self.bias)
        indices, offsets, values = self._parts(features)
        sums = F.embedding_bag(
            indices.long(),
            self.weight,
            offsets.long(),
            mode="sum",
            per_sample_weights=values.to(self.weight.dtype),
            include_last_offset=True,
        )
        return sums + self.bias

    def _parts(self, features: Features) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(features, Tensor):
            if features.layout != torch.sparse_csr:
                fail("query", features.layout, "dense rows, torch.sparse_csr or (indices, offsets, values)", TypeError)
            self._check_width(features)
            return features.col_indices(), features.crow_indices(), features.values()
        if not isinstance(features, tuple) or len(features) != 3:
            fail("query", type(features).__name__, "dense or sparse rows, or (indices, offsets, values)", TypeError)
        indices, offsets, values = features
        if values.numel() != indices.numel():
            fail("values", f"{values.numel()} numbers", f"one for each of the {indices.numel()} indices")
        return indices, offsets, values

    def _check_width(self, features: Tensor) -> None:
        wanted = self.weight.shape[0]
        if features.dim() != 2 or features.shape[1] != wanted:
            raise ValueError(f"query has shape {list(features.shape)}; expected features, of shape [B, {wanted}]")


def word_table(
    vocabulary: int, dim: int, draw: Callable[[Tensor], object], embeddings: Tensor | None, *, freeze: bool
) -> nn.Embedding:
    """Word vectors, given or random; row 0, the padding, is 0."""
    if freeze and embeddings is None:
        fail("freeze", freeze, "embeddings, or freeze=False")
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
