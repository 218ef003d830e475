"""XML-CNN, the paper's model for labelling raw text: convolutions, pooled in pieces, and a bottleneck."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.options import Annotated, Sizes, Whole, checked
from songrank.models._labels import LabelModel, check_words, word_table
from songrank.models._layers import Dropout, Dropped
from songrank.models.capabilities import Capabilities

_EMBEDDING_BOUND = 0.25  # word vectors that are trained elsewhere have entries of about this size


def _draw(weight: Tensor) -> None:
    nn.init.uniform_(weight, -_EMBEDDING_BOUND, _EMBEDDING_BOUND)


def dynamic_max_pool(values: Tensor, length: Tensor, pools: int) -> Tensor:
    """The largest of each of ``pools`` pieces of a row's first ``length`` columns: [B, C, T] → [B, C, pools].

    Piece j goes from ⌊j n / pools⌋ to ⌈(j + 1) n / pools⌉, as in ``F.adaptive_max_pool1d``, but n is the row's own
    length and not that of the padded tensor; −∞ where n is 0.

    >>> values = torch.tensor([[[3.0, 1.0, 2.0, 5.0, 9.0]], [[4.0, 2.0, 9.0, 9.0, 9.0]]])
    >>> dynamic_max_pool(values, torch.tensor([4, 2]), pools=2)
    tensor([[[3., 5.]],
    <BLANKLINE>
            [[4., 2.]]])
    """
    # Flat from the start and without a negative division: a graph with T left open cannot tell how to join two axes,
    # and ONNX rounds towards 0.
    columns = values.shape[2]
    widest = (columns + pools - 1) // pools + 1
    place = torch.arange(pools * widest, device=values.device)
    piece = place // widest
    start = length.unsqueeze(1) * piece // pools
    stop = (length.unsqueeze(1) * (piece + 1) + pools - 1) // pools
    at = start + place - piece * widest
    inside = (at < stop).unsqueeze(1)
    at = at.clamp(max=columns - 1).unsqueeze(1)
    pieces = values.gather(2, at.expand(-1, values.shape[1], -1)).masked_fill(~inside, -torch.inf)
    return pieces.view(*values.shape[:2], pools, widest).amax(-1)


class XMLCNN(LabelModel):
    """Convolutions over the words of a text (Liu et al., *Extreme Multi-label Text Classification*, SIGIR 2017).

    For each window h, filters over h neighbouring words; the largest answer of each filter in each of p pieces of the
    text, so that where in the text it was is kept roughly; then

        z = dropout(ReLU(W [all pooled ReLU(answers)] + b)),    score_label = w_label · z + b_label

    The text is followed and preceded by h − 1 empty places, so that texts shorter than a window are read too. Pieces
    are those of the text and not of the padded batch, as in the formula of the authors: padding changes nothing.

    Args:
        vocabulary: how many word numbers there are, with 0, which pads a text at its end.
        num_labels: labels, the items of this task.
        dim: width of the word vectors.
        filters: filters of each window.
        windows: numbers of words that filters see.
        pools: p, the pieces of a text.
        bottleneck: width of z.
        dropout: share of z that is dropped in training.
        embeddings: [vocabulary, dim] word vectors to start from; by default uniform within ±0.25. Row 0 becomes 0.
        freeze: keep the given embeddings as they are.

    >>> from songrank.models import XMLCNN
    >>> model = XMLCNN(vocabulary=50, num_labels=9, dim=8, filters=4, bottleneck=16).eval()
    >>> texts = torch.tensor([[7, 3, 3, 9], [12, 0, 0, 0]])
    >>> model(texts, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape
    torch.Size([2, 3])
    >>> alone = model.score_all(texts[1:, :1])                      # padding changes nothing
    >>> torch.allclose(model.score_all(texts)[1:], alone, atol=1e-6)
    True

    """

    capabilities = Capabilities("tokens", dot_product=True)

    @checked
    def __init__(
        self,
        vocabulary: Annotated[int, Whole(2)],
        num_labels: Annotated[int, Whole()],
        dim: Annotated[int, Whole()] = 300,
        filters: Annotated[int, Whole()] = 128,
        windows: Annotated[Sequence[int], Sizes(least=1)] = (2, 4, 8),
        pools: Annotated[int, Whole()] = 8,
        bottleneck: Annotated[int, Whole()] = 512,
        dropout: Dropped = 0.5,
        embeddings: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        self.num_items, self.windows, self.pools = num_labels, tuple(windows), pools
        self.embedding = word_table(vocabulary, dim, _draw, embeddings, freeze=freeze)
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, filters, size, padding=size - 1) for size in self.windows)
        pooled = len(self.windows) * filters * self.pools
        self.bottleneck = nn.Linear(pooled, bottleneck)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(bottleneck, num_labels)

    def encode(self, query: Tensor) -> Tensor:
        """z, [B, bottleneck]."""
        check_words(query)
        place = torch.arange(1, query.shape[1] + 1, device=query.device)
        length = (place * (query != 0)).amax(1)
        words = self.embedding(query.long()).transpose(1, 2)
        pooled = [
            dynamic_max_pool(convolution(words), length + size - 1, self.pools)
            for size, convolution in zip(self.windows, self.convolutions, strict=True)
        ]
        # The largest of ReLUs is the ReLU of the largest, and there are fewer of these.
        found = F.relu(torch.cat(pooled, 1).flatten(1))
        z: Tensor = self.dropout(F.relu(self.bottleneck(found)))
        return z
