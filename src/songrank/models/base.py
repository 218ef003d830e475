"""Base classes and declared capabilities of models."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.options import WithOptions
from songrank.models._inputs import item_scores, table_scores

Query = Literal["ids", "history", "sequence", "documents", "features", "tokens"]

_ON_DISK: dict[Query, str] = {"history": "histories", "sequence": "histories", "tokens": "words"}


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a model class.

    Args:
        query: the model input for a query: an id, a set of items (``"history"``) or an ordered list of items
            (``"sequence"``), documents, features of a text, or tokens of a text.
        query_tables: names of parameters with one row per query id; a warm start maps their rows by id.
        item_tables: likewise with one row per item id.
        sparse_rows: whether a step reads only the rows of queries and items of the slate in these tables, through
            their embeddings; an optimiser may then update only those rows.
        dot_product: whether a score is the product of a query vector and an item vector, plus the item's bias.
        tiled: whether ``score_all`` works in tiles whose number depends on the number of queries. As an exported graph
            has a fixed number of operations, an export traces the call with all items instead.
        pointwise: whether the score of a document does not depend on the other documents of its list.

    >>> Capabilities("sequence").inputs
    'histories'
    """

    query: Query
    query_tables: tuple[str, ...] = ()
    item_tables: tuple[str, ...] = ()
    sparse_rows: bool = False
    dot_product: bool = False
    tiled: bool = False
    pointwise: bool = False

    @property
    def inputs(self) -> str:
        """The name of this input in model folders."""
        return _ON_DISK.get(self.query, self.query)


class RankingModel(nn.Module, WithOptions):
    """Base class of models; a subclass implements ``CatalogueModel`` or ``ListModel`` and declares its capabilities."""

    capabilities: Capabilities
    history_length: int | None = None
    """Maximum number of items per history; None if queries are not histories."""
    query_bytes: int = 0
    """Approximate memory in bytes to score one query without gradients, excluding scores."""

    @abstractmethod
    def reset_head(self) -> None:
        """Reinitialise the last layer only, as in the paper before fine-tuning."""

    def row_tables(self, pairs: int) -> dict[str, list[nn.Embedding]]:
        """Embeddings with few rows used per step of ``pairs`` pairs, by "query" or "item".

        Query tables are always included, item tables if there are more items than pairs.
        """
        if not self.capabilities.sparse_rows:
            return {}
        query, item = map(self._embeddings, (self.capabilities.query_tables, self.capabilities.item_tables))
        found = {"query": query, "item": [table for table in item if table.num_embeddings > pairs]}
        return {name: tables for name, tables in found.items() if tables}

    def _embeddings(self, names: tuple[str, ...]) -> list[nn.Embedding]:
        owners = [self.get_submodule(name.rpartition(".")[0]) for name in names if "." in name]
        return [owner for owner in owners if isinstance(owner, nn.Embedding)]


class DotProductModel(RankingModel):
    """score = v(query) · w_item + b_item; a subclass provides query vectors and the item layer."""

    @abstractmethod
    def query_vectors(self, query: Any) -> Tensor:
        """[B, D]: one vector per query."""

    @property
    @abstractmethod
    def item_layer(self) -> nn.Embedding | nn.Linear:
        """The layer whose weight [N, D] holds the item vectors."""

    @property
    def item_bias(self) -> Tensor | None:
        """[N]: the bias of each item."""
        return None

    def forward(self, query: Any, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for B queries."""
        vectors, layer = self.query_vectors(query), self.item_layer
        if isinstance(layer, nn.Embedding):
            return item_scores(vectors, layer, item, self.item_bias)
        return table_scores(vectors, layer.weight, item, self.item_bias)

    def score_all(self, query: Any) -> Tensor:
        """Scores [B, num_items] for B queries, by one matrix product."""
        return F.linear(self.query_vectors(query), self.item_layer.weight, self.item_bias)


class LabelModel(DotProductModel):
    """score_label = w_label · z(text) + b_label, with w and b the weight and bias of ``head``."""

    head: Any

    @property
    def item_layer(self) -> nn.Linear:
        """The last layer: its weight has one row per label."""
        return self.head  # type: ignore[no-any-return]

    @property
    def item_bias(self) -> Tensor:
        """B."""
        return self.head.bias  # type: ignore[no-any-return]

    def reset_head(self) -> None:
        """Reinitialise w and b of all labels; other layers are kept."""
        self.head.reset_parameters()


def capabilities_of(model: nn.Module | None) -> Capabilities:
    """The declared capabilities of a model; by default the model reads ids and has no tables."""
    return model.capabilities if isinstance(model, RankingModel) else Capabilities("ids")
