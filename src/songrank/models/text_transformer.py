"""A transformer for labelling raw text: words that look at one another, and the mean of what they have seen."""

import torch
from torch import Tensor, nn

from songrank.core.options import Annotated, Whole, checked
from songrank.models._attention import AttentionBlock
from songrank.models._labels import LabelModel, check_words, word_table
from songrank.models._layers import Dropout, Dropped
from songrank.models.capabilities import Capabilities

_STD = 0.02


def _draw(weight: Tensor) -> None:
    nn.init.normal_(weight, std=_STD)


class TextTransformer(LabelModel):
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

    capabilities = Capabilities("tokens", dot_product=True)
    check_together = AttentionBlock.check_together

    @checked
    def __init__(
        self,
        vocabulary: Annotated[int, Whole(2)],
        num_labels: Annotated[int, Whole()],
        dim: Annotated[int, Whole()] = 128,
        blocks: Annotated[int, Whole()] = 2,
        heads: Annotated[int, Whole()] = 4,
        length: Annotated[int, Whole()] = 512,
        feed_forward: Annotated[int, Whole()] | None = None,
        dropout: Dropped = 0.1,
        embeddings: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        self.num_items, self.length = num_labels, length
        wide = 4 * dim if feed_forward is None else feed_forward
        self.embedding = word_table(vocabulary, dim, _draw, embeddings, freeze=freeze)
        self.place = nn.Parameter(torch.empty(length, dim))
        # Nothing is dropped within blocks: a CPU would hold all attention weights for it, and take three times as long.
        self.blocks = nn.ModuleList(AttentionBlock(dim, heads, wide, dropout=0.0) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(dim, num_labels)
        _draw(self.place)

    def encode(self, query: Tensor) -> Tensor:
        """z, [B, dim]."""
        check_words(query)
        # What is beyond length is cut off or, in a graph with T left open, which cannot tell whether to cut, not seen.
        tokens = query.long() if torch.compiler.is_compiling() else query[:, : self.length].long()
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
