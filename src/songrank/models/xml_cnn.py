"""XML-CNN, the paper's text model for multi-label classification: convolutions, dynamic max pooling, a bottleneck."""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.options import Annotated, Count, Sizes, Whole, checked
from songrank.models._inputs import check_words
from songrank.models._layers import Dropout, Dropped, word_table
from songrank.models.base import Capabilities, LabelModel

_draw = partial(nn.init.uniform_, a=-0.25, b=0.25)  # the scale of pretrained word vectors


def dynamic_max_pool(values: Tensor, length: Tensor, pools: int) -> Tensor:
    """Maxima of ``pools`` segments of the first ``length`` columns of each row: [B, C, T] → [B, C, pools].

    Segment j goes from ⌊j n / pools⌋ to ⌈(j + 1) n / pools⌉, as in ``F.adaptive_max_pool1d``, but n is the length of
    the row, not the padded width; −∞ if n is 0.
    """
    # One flat axis, no negative division: a graph with dynamic T cannot merge axes, and ONNX rounds towards 0.
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

    For each window size h, convolutions over h words, max-pooled in p segments of the text, then

        z = dropout(ReLU(W [all pooled ReLU(outputs)] + b)),    score_label = w_label · z + b_label

    The text is padded with h − 1 positions at both ends, so texts may be shorter than a window. Segments divide the
    text, not the padded batch, as in the authors' formula, so padding has no effect.

    Args:
        vocabulary: number of tokens, including 0, the padding.
        num_labels: number of labels.
        dim: width of the word vectors.
        filters: number of filters per window size.
        windows: window sizes, in words.
        pools: p, the number of segments of a text.
        bottleneck: width of z.
        dropout: dropout probability of z.
        embeddings: [vocabulary, dim] initial word vectors; by default uniform within ±0.25. Row 0 is set to 0.
        freeze: whether to keep the given embeddings fixed.

    >>> from songrank.models import XMLCNN
    >>> model = XMLCNN(vocabulary=50, num_labels=9, dim=8, filters=4, bottleneck=16).eval()
    >>> texts = torch.tensor([[7, 3, 3, 9], [12, 0, 0, 0]])
    >>> model(texts, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape, model.score_all(texts).shape
    (torch.Size([2, 3]), torch.Size([2, 9]))
    """

    capabilities = Capabilities("tokens", dot_product=True)

    @checked
    def __init__(
        self,
        vocabulary: Annotated[int, Whole(2)],
        num_labels: Count,
        dim: Count = 300,
        filters: Count = 128,
        windows: Annotated[Sequence[int], Sizes(least=1)] = (2, 4, 8),
        pools: Count = 8,
        bottleneck: Count = 512,
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

    def query_vectors(self, query: Tensor) -> Tensor:
        """Z, [B, bottleneck]."""
        check_words(query)
        place = torch.arange(1, query.shape[1] + 1, device=query.device)
        length = (place * (query != 0)).amax(1)
        words = self.embedding(query.long()).transpose(1, 2)
        pooled = [
            dynamic_max_pool(convolution(words), length + size - 1, self.pools)
            for size, convolution in zip(self.windows, self.convolutions, strict=True)
        ]
        # ReLU after pooling gives the same result at lower cost.
        found = F.relu(torch.cat(pooled, 1).flatten(1))
        z: Tensor = self.dropout(F.relu(self.bottleneck(found)))
        return z
