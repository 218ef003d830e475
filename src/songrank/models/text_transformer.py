"""A transformer for labelling raw text: words that look at one another, and the mean of what they have seen."""

import torch
from torch import Tensor, nn

from songrank.core.checks import check_int
from songrank.models._attention import AttentionBlock
from songrank.models._items import table_scores
from songrank.models._layers import Dropout, check_dropout
from songrank.models._words import check_words, word_table

_STD = 0.02


def _draw(weight: Tensor) -> None:
    nn.init.normal_(weight, std=_STD)


class TextTransformer(nn.Module):
    """Self-attention over the words of a text (Vaswani et al., *Attention Is All You Need*, 2017).

    With e_w the vector of word w, p_t that of place t, and x the rows dropout(e_w + p_t) of a text of n words,

        z = dropout(1/n Σ_t norm(blocks(x))_t),    score_label = w_label · z + b_label

    A word sees those before and after it, and no padding: padding changes nothing. A text without words has z = 0.

    An encoder of yours in its place, anything that turns word numbers [B, T] into vectors [B, D], is the
    ``query_encoder`` of :class:`songrank.models.TwoTower`; examples/text_encoder.py does so with one of Hugging Face.

    Args:
        vocabulary: how many word numbers there are, with 0, which pads a text at its end.
        num_labels: labels, the items of this task.
        dim: width of all vectors.
        blocks: of attention, see :class:`songrank.models.ContextAwareRanker`.
        heads: attention heads, a divisor of ``dim``.
        length: of longer texts the first so many words are read.
        feed_forward: width within a block; 4 · ``dim`` if not given.
        dropout: share of cells of x and of z that is dropped in training.
        embeddings: [vocabulary, dim] word vectors to start from; by default normal, deviation 0.02. Row 0 becomes 0.
        freeze: keep the given embeddings as they are.

    >>> from songrank.models import TextTransformer
    >>> model = TextTransformer(vocabulary=50, num_labels=9, dim=8).eval()
    >>> texts = torch.tensor([[7, 3, 3, 9], [12, 0, 0, 0]])
    >>> model(texts, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape
    torch.Size([2, 3])
    >>> alone = model.score_all(texts[1:, :1])                      # padding changes nothing
    >>> torch.allclose(model.score_all(texts)[1:], alone, atol=1e-6)
    True

    """

    def __init__(
        self,
        vocabulary: int,
        num_labels: int,
        dim: int = 128,
        blocks: int = 2,
        heads: int = 4,
        length: int = 512,
        feed_forward: int | None = None,
        dropout: float = 0.1,
        embeddings: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        self.num_items, self.length = check_int("num_labels", num_labels), check_int("length", length)
        wide = 4 * check_int("dim", dim) if feed_forward is None else feed_forward
        self.embedding = word_table(vocabulary, dim, _draw, embeddings, freeze=freeze)
        self.place = nn.Parameter(torch.empty(length, dim))
        # Nothing is dropped within blocks: a CPU would hold all attention weights for it, and take three times as long.
        self.blocks = nn.ModuleList(
            AttentionBlock(dim, heads, wide, dropout=0.0) for _ in range(check_int("blocks", blocks))
        )
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(check_dropout(dropout))
        self.head = nn.Linear(dim, num_labels)
        _draw(self.place)

    def reset_head(self) -> None:
        """Draw all labels' w and b anew; the layers below stay."""
        self.head.reset_parameters()

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the labels [B, L] or [1, L] for texts [B, T]."""
        return table_scores(self._encode(query), self.head.weight, item, self.head.bias)

    def score_all(self, query: Tensor) -> Tensor:
        """Scores [B, num_labels] for texts [B, T]."""
        scores: Tensor = self.head(self._encode(query))
        return scores

    def _encode(self, tokens: Tensor) -> Tensor:
        """z, [B, dim]."""
        check_words(tokens)
        # What is beyond length is cut off or, in a graph with T left open, which cannot tell whether to cut, not seen.
        tokens = tokens.long() if torch.compiler.is_compiling() else tokens[:, : self.length].long()
        place = torch.arange(tokens.shape[1], device=tokens.device)
        mask = (tokens != 0) & (place < self.length)
        # Not every kernel has an answer to a softmax over nothing, so in a text without words all attend to all.
        attend = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        x = self.dropout(self.embedding(tokens) + self.place[place.clamp(max=self.length - 1)])
        for block in self.blocks:
            x = block(x, attend)
        total = (self.norm(x) * mask.unsqueeze(-1)).sum(1)
        z: Tensor = self.dropout(total / mask.sum(1, keepdim=True).clamp_min(1))
        return z
