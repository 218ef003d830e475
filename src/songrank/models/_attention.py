"""Self-attention: plain and gated blocks, and biases of attention scores by distance."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.packing import Group
from songrank.models._inputs import table_rows
from songrank.models._layers import Dropout

_TIME_BUCKETS, _TIME_STEP = 128, 0.301  # as in HSTU; a step of 0.301 is a factor of 1.35


class AttentionBlock(nn.Module):
    """x ← x + attention(norm(x)),    x ← x + W₂ ReLU(W₁ norm(x)).

    ``dropout`` applies in training to attention weights, between W₁ and W₂, and before each sum; with ``causal``, a
    position attends only to itself and to positions before it. Scores are q·k / √(dim / heads), plus a bias if given.
    """

    def __init__(self, dim: int, heads: int, feed_forward: int, dropout: float, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm, self.feed_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.project, self.join = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.widen, self.narrow = nn.Linear(dim, feed_forward), nn.Linear(feed_forward, dim)
        self.dropout = Dropout(dropout)
        # Queries, keys and values are fused: each is initialised like a square layer.
        for weight in (*self.project.weight.chunk(3), self.join.weight, self.widen.weight, self.narrow.weight):
            nn.init.xavier_uniform_(weight)

    @staticmethod
    def check_together(options: Mapping[str, Any]) -> None:
        """Raise unless ``heads`` divides ``dim``."""
        if options["dim"] % options["heads"]:
            fail("heads", options["heads"], f"a divisor of dim, {options['dim']}")

    def forward(
        self, x: Tensor, attend: Tensor | Sequence[Tensor | None] | None = None, groups: Sequence[Group] | None = None
    ) -> Tensor:
        """X [B, L, dim] after the block.

        ``attend``, broadcast to [B, heads, L, L], is True for allowed positions, or a bias of scores. A bias replaces
        ``causal``: it is −∞ for positions that are not allowed. With ``groups`` x is packed, [T, dim], and ``attend``
        has one entry per group.
        """
        x = x + self.dropout(self.attention(self.attention_norm(x), attend, groups))
        x = x + self.dropout(self.narrow(self.dropout(F.relu(self.widen(self.feed_norm(x))))))
        return x

    def attention(
        self,
        x: Tensor,
        attend: Tensor | Sequence[Tensor | None] | None = None,
        groups: Sequence[Group] | None = None,
    ) -> Tensor:
        """[B, L, dim] or [T, dim]: attention to the rows of x, without norm and sum."""
        rows: Tensor = self.project(x)
        if groups is None:
            assert not isinstance(attend, Sequence)
            found = self._attend(rows, attend)
        else:
            assert isinstance(attend, Sequence)
            parts = zip(torch.split(rows, [group.positions for group in groups]), groups, attend, strict=True)
            each = [self._attend(part.view(*group, -1), own).flatten(0, 1) for part, group, own in parts]
            found = each[0] if len(each) == 1 else torch.cat(each)
        joined: Tensor = self.join(found)
        return joined

    def _attend(self, rows: Tensor, attend: Tensor | None) -> Tensor:
        """[B, L, dim]: values by attention, from queries, keys and values [B, L, 3 · dim]."""
        parts = rows.unflatten(-1, (3, self.heads, -1))  # type: ignore[no-untyped-call]
        parts = parts.permute(2, 0, 3, 1, 4)  # [3, B, heads, L, dim/heads]
        query, key, value = parts.unbind(0)
        dropout = self.dropout.p if self.training else 0.0
        found = F.scaled_dot_product_attention(
            query, key, value, attend, dropout, is_causal=self.causal and attend is None
        )
        return found.transpose(1, 2).flatten(2)


class GatedBlock(AttentionBlock):
    """x ← x + σ(U₁ x) ⊙ attention(norm(x)),    x ← x + σ(U₂ x) ⊙ W₂ (SiLU(W₁ norm(x)) ⊙ W₃ norm(x)).

    The gated residuals and SwiGLU of LiGR (Borisyuk et al., *From Features to Transformers*, 2025). U₁ and U₂ start at
    0, so that all gates are 1/2 at first.
    """

    def __init__(self, dim: int, heads: int, feed_forward: int, dropout: float, *, causal: bool = False) -> None:
        super().__init__(dim, heads, feed_forward, dropout, causal=causal)
        self.attention_gate, self.feed_gate = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, feed_forward)
        for gate in (self.attention_gate, self.feed_gate):
            nn.init.zeros_(gate.weight)
            nn.init.zeros_(gate.bias)
        nn.init.xavier_uniform_(self.gate.weight)

    def forward(
        self, x: Tensor, attend: Tensor | Sequence[Tensor | None] | None = None, groups: Sequence[Group] | None = None
    ) -> Tensor:
        """X after the block; arguments as in :class:`AttentionBlock`."""
        found = self.dropout(self.attention(self.attention_norm(x), attend, groups))
        x = x + torch.sigmoid(self.attention_gate(x)) * found
        rows = self.feed_norm(x)
        found = self.dropout(self.narrow(self.dropout(F.silu(self.widen(rows)) * self.gate(rows))))
        x = x + torch.sigmoid(self.feed_gate(x)) * found
        return x


class DistanceBias(nn.Module):
    """Biases of causal attention scores by distance: b[i − j] for each head (Raffel et al., *T5*, 2020).

    b starts at 0; distances above ``longest`` share the last value.
    """

    def __init__(self, heads: int, longest: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, longest + 1))

    def forward(self, rows: int) -> Tensor:
        """[heads, L, L] for L = ``rows``; −∞ where j > i."""
        place = torch.arange(rows, device=self.weight.device)
        distance = place.unsqueeze(1) - place
        known = distance.clamp(0, self.weight.shape[1] - 1).flatten()
        found: Tensor = self.weight.index_select(1, known).view(-1, rows, rows)
        return found.masked_fill(distance < 0, -torch.inf)


class TimeBias(nn.Module):
    """Biases of attention scores by time difference: w[⌊ln max(1, t_i − t_j) / 0.301⌋], the same for all heads.

    As in HSTU (Zhai et al., *Actions Speak Louder than Words*, 2024), but with the time t_i of the last known event
    instead of the time of the request. w starts at 0, with 128 values: enough for nanoseconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(_TIME_BUCKETS))

    def forward(self, buckets: Tensor) -> Tensor:
        """[B, 1, L, L], from :func:`time_buckets` [B, L, L]."""
        return table_rows(self.weight, buckets).unsqueeze(1)


def time_buckets(time: Tensor) -> Tensor:
    """[B, L, L]: the bucket of the difference between row i and row j of times [B, L], in any unit.

    >>> time_buckets(torch.tensor([[0, 1, 100]])).tolist()
    [[[0, 0, 0], [0, 0, 0], [15, 15, 0]]]
    """
    # In float64: float32 would put some differences into other buckets on other devices. ONNX cannot clip int64.
    passed = (time.unsqueeze(2) - time.unsqueeze(1)).double().clamp_min(1.0)
    return (passed.log() / _TIME_STEP).clamp(max=_TIME_BUCKETS - 1.0).long()
