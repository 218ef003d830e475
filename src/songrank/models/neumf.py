"""NeuMF, the paper's recommendation model: matrix factorisation and an MLP."""

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank import kernels
from songrank.core.options import Annotated, Count, Sizes, checked
from songrank.models._inputs import check_ids, check_item, item_rows, item_scores, table_rows, unit
from songrank.models._layers import Dropped, bend, hidden_layers
from songrank.models.base import Capabilities, RankingModel

CPU_TILE, GPU_TILE = 2**20, 2**28
"""Bytes of hidden activations per tile of ``score_all``: tiles in cache are three times as fast on a CPU core; a GPU
needs few large tiles."""

_TILE_ROWS = 16  # queries per tile; with fewer, the item halves are read too often
_STD = 0.01


class NeuMF(RankingModel):
    """Neural matrix factorisation (He et al., *Neural Collaborative Filtering*, WWW 2017), with the paper's sizes.

    With two vectors for each query, p and u, and two for each item, q and v:

        score = w · [p ∘ q, φ(W_query u + W_item v + b)]

    where φ is ReLU, dropout, and further hidden layers. All parameters are initialised from N(0, 0.01²).

    The first layer is the sum of a query half and an item half. Each half is computed once per query and, if there are
    more pairs than items, once per item.

    Args:
        num_queries: number of queries (users).
        num_items: number of items.
        dim: width of each of the four embeddings.
        hidden: widths of the hidden layers, at least one.
        dropout: dropout probability of hidden layers.

    >>> from songrank.models import NeuMF
    >>> model = NeuMF(num_queries=4, num_items=9).eval()
    >>> query = torch.tensor([2, 0])
    >>> model(query, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape, model.score_all(query).shape
    (torch.Size([2, 3]), torch.Size([2, 9]))
    """

    capabilities = Capabilities(
        "ids",
        query_tables=("query_product.weight", "query_hidden.weight"),
        item_tables=("item_product.weight", "item_hidden.weight"),
        sparse_rows=True,
        tiled=True,
    )

    @checked
    def __init__(
        self,
        num_queries: Count,
        num_items: Count,
        dim: Count = 64,
        hidden: Annotated[Sequence[int], Sizes(least=1)] = (64,),
        dropout: Dropped = 0.2,
    ) -> None:
        super().__init__()
        self.num_queries, self.num_items, self.dim = num_queries, num_items, dim
        self.widths, self.dropout = tuple(hidden), dropout
        self.query_product = nn.Embedding(num_queries, dim)
        self.item_product = nn.Embedding(num_items, dim)
        self.query_hidden = nn.Embedding(num_queries, dim)
        self.item_hidden = nn.Embedding(num_items, dim)
        self.first = nn.Linear(2 * dim, self.widths[0])
        # In place: the sum of the two halves is the largest tensor and not reused.
        self.rest = nn.Sequential(bend(dropout, inplace=True), hidden_layers(self.widths[0], self.widths[1:], dropout))
        self.head = nn.Linear(dim + self.widths[-1], 1, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=_STD)

    def reset_head(self) -> None:
        """Reinitialise w; embeddings and hidden layers are kept."""
        nn.init.normal_(self.head.weight, std=_STD)

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the queries [B]."""
        check_ids(query)
        check_item(item, query.shape[0])
        factors, by_query, item_layer, head = self._begin(query)
        if item.shape[0] == query.shape[0] and self._has_kernel(factors):
            return self._by_kernel(factors, by_query, item_layer, head, item)
        if item.numel() < self.num_items:
            by_item = F.linear(item_rows(self.item_hidden, item), item_layer)
        else:
            by_item = table_rows(F.linear(self.item_hidden.weight, item_layer), item)
        return item_scores(factors, self.item_product, item) + self._top(by_query.unsqueeze(1) + by_item, head)

    def score_all(self, query: Tensor) -> Tensor:
        """Scores [B, num_items] for the queries [B], in tiles of at most ``GPU_TILE`` bytes of hidden activations."""
        check_ids(query)
        factors, by_query, item_layer, head = self._begin(query)
        by_item = F.linear(self.item_hidden.weight, item_layer)
        table = self.item_product.weight
        if self._has_kernel(factors) and not (torch.is_grad_enabled() or self.training):
            from songrank.kernels.neumf_scores import all_scores

            return all_scores(factors, by_query, table, by_item, head)

        def tile(rows: slice, columns: slice) -> Tensor:
            hidden = self._top(by_query[rows].unsqueeze(1) + by_item[columns], head)
            return F.linear(factors[rows], table[columns]) + hidden

        height, width = self._tile_shape(query.shape[0], by_item)
        return torch.cat(
            [
                torch.cat([tile(rows, columns) for columns in _slices(self.num_items, width)], dim=1)
                for rows in _slices(query.shape[0], height)
            ]
        )

    def item_similarity(self, item: Tensor) -> Tensor:
        """[B, N]: the cosine of the concatenated embeddings of items."""
        vectors = unit(torch.cat([self.item_product.weight, self.item_hidden.weight], dim=1))
        return vectors[item] @ vectors.T

    def _has_kernel(self, factors: Tensor) -> bool:
        """Whether a kernel can compute these scores; its summation order is not deterministic."""
        simple = len(self.widths) == 1 and factors.dtype == torch.float32
        ordered = torch.are_deterministic_algorithms_enabled() and torch.is_grad_enabled()
        return simple and not ordered and not torch.is_autocast_enabled("cuda") and kernels.usable(factors)

    def _by_kernel(self, factors: Tensor, by_query: Tensor, item_layer: Tensor, head: Tensor, item: Tensor) -> Tensor:
        from songrank.kernels.neumf_scores import pair_scores

        table, hidden, place = self.item_product.weight, self.item_hidden.weight, item
        if item.numel() < self.num_items:
            table, hidden = (item_rows(rows, item).flatten(0, 1) for rows in (self.item_product, self.item_hidden))
            place = torch.arange(item.numel(), device=item.device).view(item.shape)
        dropout = self.dropout if self.training else 0.0
        return pair_scores(factors, by_query, table, F.linear(hidden, item_layer), head, place, dropout)

    def _begin(self, query: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """P times its part of w, the query half with bias, W_item, and the rest of w.

        Each weight is split once, so its gradient is assembled once.
        """
        query_layer, item_layer = torch.split(self.first.weight, self.dim, 1)
        product, hidden = torch.split(self.head.weight.view(-1), [self.dim, self.widths[-1]])
        by_query = F.linear(self.query_hidden(query), query_layer, self.first.bias)
        return self.query_product(query) * product, by_query, item_layer, hidden

    def _top(self, hidden: Tensor, head: Tensor) -> Tensor:
        return torch.matmul(self.rest(hidden), head)

    def _tile_shape(self, rows: int, by_item: Tensor) -> tuple[int, int]:
        budget = CPU_TILE if by_item.device.type == "cpu" else GPU_TILE
        pairs = max(1, budget // (sum(self.widths) * by_item.element_size()))
        width = min(self.num_items, math.ceil(pairs / max(1, min(rows, _TILE_ROWS))))
        return max(1, pairs // width), width


def _slices(total: int, step: int) -> Iterator[slice]:
    # An empty batch has one slice, because torch.cat needs a tensor.
    return (slice(start, start + step) for start in range(0, max(1, total), step))
