"""A transformer for multi-label classification of texts: self-attention over words and mean pooling."""

from functools import partial

import torch
from torch import Tensor, nn

from songrank.core.options import Annotated, Count, Layers, Whole, checked
from songrank.models._attention import AttentionBlock
from songrank.models._inputs import check_words
from songrank.models._layers import Dropout, Dropped, word_table
from songrank.models.base import Capabilities, LabelModel

_draw = partial(nn.init.normal_, std=0.02)


class TextTransformer(LabelModel):
    """Self-attention over the words of a text (Vaswani et al., *Attention Is All You Need*, 2017).

    With e_w the vector of word w, p_t of position t, and x the rows dropout(e_w + p_t) of a text of n words,

        z = dropout(1/n Σ_t norm(blocks(x))_t),    score_label = w_label · z + b_label

    A word attends to all words of the text, but not to padding. A text without words has z = 0.

    To use your own encoder, a module from tokens [B, T] to vectors [B, D], pass it as ``query_encoder`` of
    :class:`songrank.models.TwoTower`; see examples/text_encoder.py for a Hugging Face model.

    Args:
        vocabulary: number of tokens, including 0, the padding.
        num_labels: number of labels.
        dim: width of all vectors.
        blocks: number of attention blocks, see :class:`songrank.models.ContextAwareRanker`.
        heads: attention heads, a divisor of ``dim``.
        length: maximum number of words per text; longer texts are truncated.
        feed_forward: width of feed-forward layers; 4 · ``dim`` by default.
        dropout: dropout probability of x and z.
        embeddings: [vocabulary, dim] initial word vectors; by default N(0, 0.02²). Row 0 is set to 0.
        freeze: whether to keep the given embeddings fixed.

    >>> from songrank.models import TextTransformer
    >>> model = TextTransformer(vocabulary=50, num_labels=9, dim=8).eval()
    >>> texts = torch.tensor([[7, 3, 3, 9], [12, 0, 0, 0]])
    >>> model(texts, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape, model.score_all(texts).shape
    (torch.Size([2, 3]), torch.Size([2, 9]))
    """

    capabilities = Capabilities("tokens", dot_product=True)
    check_together = AttentionBlock.check_together

    @checked
    def __init__(
        self,
        vocabulary: Annotated[int, Whole(2)],
        num_labels: Count,
        dim: Count = 128,
        blocks: Annotated[int, Layers()] = 2,
        heads: Count = 4,
        length: Count = 512,
        feed_forward: Count | None = None,
        dropout: Dropped = 0.1,
        embeddings: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        self.num_items, self.length = num_labels, length
        self.embedding = word_table(vocabulary, dim, _draw, embeddings, freeze=freeze)
        self.place = nn.Parameter(torch.empty(length, dim))
        # No dropout within blocks: on a CPU it would store all attention weights and take three times as long.
        wide = feed_forward or 4 * dim
        self.blocks = nn.ModuleList(AttentionBlock(dim, heads, wide, dropout=0.0) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(dim, num_labels)
        _draw(self.place)

    def query_vectors(self, query: Tensor) -> Tensor:
        """Z, [B, dim]."""
        check_words(query)
        # Words beyond length are truncated or, in a graph with dynamic T, masked.
        tokens = query.long() if torch.compiler.is_compiling() else query[:, : self.length].long()
        place = torch.arange(tokens.shape[1], device=tokens.device)
        mask = (tokens != 0) & (place < self.length)
        # Some kernels give NaN for an empty softmax, so in an empty text all positions attend to all.
        attend = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        x = self.dropout(self.embedding(tokens) + self.place[place.clamp(max=self.length - 1)])
        for block in self.blocks:
            x = block(x, attend)
        total = (self.norm(x) * mask.unsqueeze(-1)).sum(1)
        z: Tensor = self.dropout(total / mask.sum(1, keepdim=True).clamp_min(1))
        return z
