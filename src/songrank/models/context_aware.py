"""The Context-Aware Ranker, the paper's search model, whose scores depend on the whole list."""

from torch import Tensor, nn

from songrank.core.options import Annotated, Count, Layers, checked
from songrank.models._attention import AttentionBlock
from songrank.models._inputs import read_lists
from songrank.models._layers import Dropped
from songrank.models.base import Capabilities, RankingModel


class ContextAwareRanker(RankingModel):
    """Self-attention over the documents of a list (Pobrotyn et al., *Context-Aware Learning to Rank*, 2020).

    With x the documents after a linear layer, each block computes, as in the authors' allRank library,

        x ← x + attention(norm(x)),    x ← x + W₂ ReLU(W₁ norm(x))

    and score = w · norm(x) + b. There is no positional encoding: permuting the documents permutes the scores.
    Documents attend only to documents of their own list, so padding has no effect; its score is 0.

    Args:
        num_features: number of features of a document.
        dim: width of x.
        blocks: number of blocks.
        heads: attention heads, a divisor of ``dim``.
        feed_forward: width of the feed-forward layer, between W₁ and W₂.
        dropout: dropout probability, for attention weights, between W₁ and W₂, and before each sum.

    >>> import torch
    >>> from songrank.models import ContextAwareRanker
    >>> model = ContextAwareRanker(num_features=5, dim=8, feed_forward=16).eval()
    >>> features, mask = torch.randn(2, 3, 5), torch.tensor([[True, True, True], [True, False, False]])
    >>> scores = model(features, mask)
    >>> scores.shape, scores[1, 1:].tolist()
    (torch.Size([2, 3]), [0.0, 0.0])
    """

    capabilities = Capabilities("documents")
    check_together = AttentionBlock.check_together

    @checked
    def __init__(
        self,
        num_features: Count,
        dim: Count = 96,
        blocks: Annotated[int, Layers()] = 2,
        heads: Count = 1,
        feed_forward: Count = 384,
        dropout: Dropped = 0.1,
    ) -> None:
        super().__init__()
        self.input = nn.Linear(num_features, dim)
        self.blocks = nn.ModuleList(AttentionBlock(dim, heads, feed_forward, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)
        nn.init.xavier_uniform_(self.input.weight)
        nn.init.xavier_uniform_(self.head.weight)

    def reset_head(self) -> None:
        """Reinitialise w and b; the blocks are kept."""
        self.head.reset_parameters()
        nn.init.xavier_uniform_(self.head.weight)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Scores [B, L] of documents [B, L, F], 0 where the mask [B, L] or [1, L] is False."""
        features, mask = read_lists(features, mask, self.input.in_features, self.input.weight.dtype)
        # Some kernels give NaN for an empty softmax, so in an empty list all positions attend to all.
        attend = (mask | ~mask.any(-1, keepdim=True))[:, None, None, :]
        x = self.input(features)
        for block in self.blocks:
            x = block(x, attend)
        scores: Tensor = self.head(self.norm(x)).squeeze(-1)
        return scores.masked_fill(~mask, 0.0)
