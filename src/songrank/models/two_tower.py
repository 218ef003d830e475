"""Two-tower model: the product of a query vector and an item vector, from ids or features."""

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.options import Annotated, Choice, Count, Number, checked
from songrank.models._inputs import check_ids, check_item, item_rows, row_scores, table_rows, table_scores
from songrank.models.base import Capabilities, RankingModel

_STD = 0.1


class TwoTower(RankingModel):
    """score = s(f(query), g(item)) / τ, with s the dot product or the cosine and τ learned.

    The standard retrieval model (Huang et al., *DSSM*, CIKM 2013; Yi et al., RecSys 2019): item vectors can be
    precomputed. Each tower is an embedding of ids or a custom module over features, such as an ``nn.Sequential``.

    Args:
        num_queries: number of query ids; alternative to ``query_encoder``.
        num_items: number of item ids; alternative to ``item_encoder`` and ``item_features``.
        query_encoder: module from the input of B queries to vectors [B, D].
        item_encoder: module from rows of ``item_features`` [..., F] to vectors [..., D].
        item_features: [num_items, F], saved with the model.
        dim: width of the embeddings; both towers must have the same width.
        similarity: ``"dot"`` or ``"cosine"``.
        temperature: initial τ.

    >>> from songrank.models import TwoTower
    >>> model = TwoTower(num_queries=4, num_items=9, dim=8, similarity="cosine", temperature=0.1)
    >>> model(torch.tensor([2, 0]), item=torch.tensor([[8, 1, 3]])).shape
    torch.Size([2, 3])

    Texts and labels with features, and custom encoders:

    >>> encoder, features = torch.nn.Linear(5, 8), torch.randn(9, 5)
    >>> model = TwoTower(query_encoder=torch.nn.Linear(20, 8), item_encoder=encoder, item_features=features)
    >>> model.score_all(torch.randn(2, 20)).shape
    torch.Size([2, 9])
    """

    capabilities = Capabilities(
        "ids",
        query_tables=("query_encoder.weight",),
        item_tables=("item_encoder.weight",),
        sparse_rows=True,
        dot_product=True,
    )
    item_features: Tensor | None

    @checked
    def __init__(
        self,
        num_queries: Count | None = None,
        num_items: Count | None = None,
        *,
        query_encoder: nn.Module | None = None,
        item_encoder: nn.Module | None = None,
        item_features: Tensor | None = None,
        dim: Count = 64,
        similarity: Annotated[str, Choice(("dot", "cosine"))] = "dot",
        temperature: Annotated[float, Number(0.0, low_open=True)] = 1.0,
    ) -> None:
        super().__init__()
        self.query_encoder = _tower("num_queries", num_queries, "query_encoder", query_encoder, dim)
        self.item_encoder = _tower("num_items", num_items, "item_encoder", item_encoder, dim)
        if (item_features is None) != (item_encoder is None):
            fail("item_features", "given" if item_features is not None else None, "it with item_encoder, or neither")
        if item_features is not None and (not isinstance(item_features, Tensor) or item_features.dim() != 2):
            fail("item_features", getattr(item_features, "shape", item_features), "a tensor of shape [num_items, F]")
        self.register_buffer("item_features", item_features)
        self.embeds_queries = query_encoder is None
        if query_encoder is not None:
            self.capabilities = replace(self.capabilities, query_tables=())
        if item_encoder is not None:
            self.capabilities = replace(self.capabilities, item_tables=())
        items = self.item_encoder.get_parameter("weight") if item_features is None else item_features
        self.num_items = int(items.shape[0])
        self.cosine = similarity == "cosine"
        self._start = math.log(temperature)
        self.log_temperature = nn.Parameter(torch.tensor(self._start))

    def reset_head(self) -> None:
        """Reset τ; the towers are kept."""
        nn.init.constant_(self.log_temperature, self._start)

    def forward(self, query: Any, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for B queries."""
        vectors = self._query_vectors(query)
        check_item(item, vectors.shape[0])
        # As in NeuMF: with more pairs than items, compute item vectors once per item.
        if item.numel() < self.num_items:
            return row_scores(vectors, self._item_vectors(item))
        return table_scores(vectors, self._item_vectors(), item)

    def score_all(self, query: Any) -> Tensor:
        """Scores [B, num_items] for B queries, by one matrix product."""
        return F.linear(self._query_vectors(query), self._item_vectors())

    def _query_vectors(self, query: Any) -> Tensor:
        """[B, D], divided by τ, which is cheapest here."""
        if self.embeds_queries:
            check_ids(query)
        vectors: Tensor = self.query_encoder(query)
        return self._scaled(vectors) * torch.exp(-self.log_temperature)

    def _item_vectors(self, item: Tensor | None = None) -> Tensor:
        """[..., D] of these items, or [num_items, D] of all."""
        if self.item_features is None:
            assert isinstance(self.item_encoder, nn.Embedding)
            return self._scaled(self.item_encoder.weight if item is None else item_rows(self.item_encoder, item))
        rows = self.item_features if item is None else table_rows(self.item_features, item)
        return self._scaled(self.item_encoder(rows))

    def _scaled(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1) if self.cosine else vectors


def _tower(count_name: str, count: int | None, name: str, encoder: nn.Module | None, dim: int) -> nn.Module:
    if (count is None) == (encoder is None):
        fail(f"{count_name} and {name}", (count, encoder), "one of them: a number of ids, or a module")
    if encoder is not None:
        if not isinstance(encoder, nn.Module):
            fail(name, type(encoder).__name__, "a torch.nn.Module", TypeError)
        return encoder
    assert count is not None
    table = nn.Embedding(count, dim)
    nn.init.normal_(table.weight, std=_STD)
    return table
