"""Two-tower model: the product of a query vector and an item vector, from ids or features."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.options import Count, checked
from songrank.models._inputs import check_ids, check_item, item_rows, row_scores, table_rows, table_scores, unit
from songrank.models.base import Capabilities, DotProductModel, Scoring, Temperature

_STD = 0.1


class TwoTower(DotProductModel):
    """score = s(f(query), g(item)) / τ, with s the dot product or the cosine.

    The standard retrieval model (Huang et al., *DSSM*, CIKM 2013; Yi et al., RecSys 2019): item vectors can be
    precomputed. Each tower is an embedding of ids or a custom module over features, such as an ``nn.Sequential``.

    Args:
        num_queries: number of query ids; alternative to ``query_encoder``.
        num_items: number of item ids; alternative to ``item_encoder`` and ``item_features``.
        query_encoder: module from the input of B queries to vectors [B, D].
        item_encoder: module from rows of ``item_features`` [..., F] to vectors [..., D].
        item_features: [num_items, F], saved with the model.
        dim: width of the embeddings; both towers must have the same width.
        scoring: ``"dot"`` or ``"cosine"``.
        temperature: τ, or its initial value.
        learn_temperature: whether to learn τ, which also scales the dot product.
        similarity: former name of ``scoring``.

    >>> import torch
    >>> from songrank.models import TwoTower
    >>> model = TwoTower(num_queries=4, num_items=9, dim=8, scoring="cosine", temperature=0.1)
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
        scoring: Scoring = "dot",
        temperature: Temperature = 1.0,
        learn_temperature: bool = True,
        similarity: Scoring | None = None,
    ) -> None:
        super().__init__(similarity or scoring, temperature, learn_temperature)
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

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise if ``similarity`` contradicts ``scoring``; a temperature is valid with both."""
        former = options["similarity"]
        if former is not None and options["scoring"] not in ("dot", former):
            fail("similarity", former, f"none with scoring={options['scoring']!r}")

    def reset_head(self) -> None:
        """Reset a learned τ; the towers are kept."""
        self.reset_temperature()

    def query_vectors(self, query: Any) -> Tensor:
        """[B, D]: the vectors of the query tower."""
        if self.embeds_queries:
            check_ids(query)
        vectors: Tensor = self.query_encoder(query)
        return vectors

    def score(self, vectors: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the query vectors [B, D]."""
        vectors = self.scaled(vectors)
        check_item(item, vectors.shape[0])
        # As in NeuMF: with more pairs than items, compute item vectors once per item.
        if item.numel() < self.num_items:
            return row_scores(vectors, self._encoded(item))
        return table_scores(vectors, self._encoded(), item)

    def item_vectors(self) -> Tensor:
        """[num_items, D]: the vectors of the item tower, of length 1 for the cosine."""
        return self._encoded()

    def _encoded(self, item: Tensor | None = None) -> Tensor:
        """[..., D] of these items, or [num_items, D] of all."""
        if self.item_features is None:
            assert isinstance(self.item_encoder, nn.Embedding)
            vectors = self.item_encoder.weight if item is None else item_rows(self.item_encoder, item)
        else:
            vectors = self.item_encoder(self.item_features if item is None else table_rows(self.item_features, item))
        return unit(vectors) if self.cosine else vectors


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
