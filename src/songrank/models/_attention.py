"""The self-attention block of models of lists, sequences and texts."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.models._layers import Dropout


class AttentionBlock(nn.Module):
    """x ← x + attention(norm(x)),    x ← x + W₂ ReLU(W₁ norm(x)).

    ``dropout`` applies in training to attention weights, between W₁ and W₂, and before each sum; with ``causal``, a
    position attends only to itself and to positions before it.

    >>> import torch
    >>> block = AttentionBlock(8, heads=2, feed_forward=16, dropout=0.1, causal=True).eval()
    >>> x = torch.randn(1, 5, 8)
    >>> torch.allclose(block(x)[:, :3], block(x[:, :3]), atol=1e-5)
    True
    """

    def __init__(self, dim: int, heads: int, feed_forward: int, dropout: float, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm, self.feed_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.project, self.join = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.widen, self.narrow = nn.Linear(dim, feed_forward), nn.Linear(feed_forward, dim)
        self.dropout = Dropout(dropout)
        # Queries, keys and values are three layers in one: each is initialised like a square layer.
        for weight in (*self.project.weight.chunk(3), self.join.weight, self.widen.weight, self.narrow.weight):
            nn.init.xavier_uniform_(weight)

    @staticmethod
    def check_together(options: Mapping[str, Any]) -> None:
        """Raise unless ``heads`` divides ``dim``."""
        if options["dim"] % options["heads"]:
            fail("heads", options["heads"], f"a divisor of dim, {options['dim']}")

    def forward(self, x: Tensor, attend: Tensor | None = None) -> Tensor:
        """X [B, L, dim] after the block; ``attend``, broadcast to [B, heads, L, L], is True for allowed positions."""
        x = x + self.dropout(self._attention(self.attention_norm(x), attend))
        x = x + self.dropout(self.narrow(self.dropout(F.relu(self.widen(self.feed_norm(x))))))
        return x

    def _attention(self, x: Tensor, attend: Tensor | None) -> Tensor:
        parts = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # [3, B, heads, L, dim/heads]
        dropout = self.dropout.p if self.training else 0.0
        found = F.scaled_dot_product_attention(
            *parts.unbind(0), attn_mask=attend, dropout_p=dropout, is_causal=self.causal
        )
        joined: Tensor = self.join(found.transpose(1, 2).flatten(2))
        return joined
