"""Base classes and declared capabilities of models."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.csr import CSR
from songrank.core.options import Annotated, Choice, Number, WithOptions
from songrank.models._inputs import item_scores, table_scores, unit

Scoring = Annotated[str, Choice(("dot", "cosine"))]
Temperature = Annotated[float, Number(0.0, low_open=True)]
Query = Literal["ids", "history", "sequence", "user", "documents", "features", "tokens"]

_ON_DISK: dict[Query, str] = {"history": "histories", "sequence": "histories", "user": "users", "tokens": "words"}


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a model class.

    Args:
        query: the model input for a query: an id, a set of items (``"history"``) or an ordered list of items
            (``"sequence"``), both an id and items (``"user"``, :class:`songrank.models.UserInput`), documents, features
            of a text, or tokens of a text.
        query_tables: names of parameters with one row per query id; a warm start maps their rows by id.
        item_tables: likewise with one row per item id.
        sparse_rows: whether a step reads only the rows of queries and items of the slate in these tables, through
            their embeddings; an optimiser may then update only those rows.
        dot_product: whether a score is the product of a query vector and an item vector, plus the item's bias; see
            :class:`DotProductModel`.
        tiled: whether ``score_all`` works in tiles whose number depends on the number of queries. As an exported graph
            has a fixed number of operations, an export traces the call with all items instead.
        pointwise: whether the score of a document does not depend on the other documents of its list.
        graph: names of the buffers with the graph of the training pairs. The model is then built with ``edges``; a warm
            start keeps the graph of the new data.
        closed_form: whether the model is fitted by ``fit_closed_form`` instead of stages of optimisation; such a model
            reads histories.
        packed: whether a model of sequences has ``packed_states``, which reads histories without padding.

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
    graph: tuple[str, ...] = ()
    closed_form: bool = False
    packed: bool = False

    @property
    def inputs(self) -> str:
        """The name of this input in model folders."""
        return _ON_DISK.get(self.query, self.query)


class ClosedFormFit(NamedTuple):
    """The result of a fit in closed form: the minimum of its objective, and the chosen options."""

    objective: float
    options: dict[str, float]


class RankingModel(nn.Module, WithOptions):
    """Base class of models; a subclass implements ``CatalogueModel`` or ``ListModel`` and declares its capabilities."""

    capabilities: Capabilities
    history_length: int | None = None
    """Maximum number of items per history; None if queries are not histories."""
    reads_times: bool = False
    """Whether a history is a pair (items, times), int64 [B, T] each."""
    query_bytes: int = 0
    """Approximate memory in bytes to score one query without gradients, excluding scores."""

    @abstractmethod
    def reset_head(self) -> None:
        """Reinitialise the last layer only, as in the paper before fine-tuning."""

    def check_buffers(self) -> None:
        """Raise ``ValueError`` if buffers that were loaded from a file are inconsistent."""

    def fit_closed_form(self, histories: CSR, validate: "ValidateTrial | None" = None) -> ClosedFormFit:
        """Fit a model with the capability ``closed_form``, on a CPU, to histories with distinct items.

        ``validate`` maps a model of the same input with some options to its validation score, to choose options; it may
        raise to end the fit. None without a validation split.
        """
        raise NotImplementedError(f"{type(self).__name__} has no solution in closed form; train it in stages")

    def item_similarity(self, item: Tensor) -> Tensor:
        """[B, num_items]: the similarity of all items to the items [B]; larger is more similar."""
        raise NotImplementedError(f"contains {type(self).__name__}, which has no similarity of items")

    def for_export(self) -> "RankingModel":
        """A model with the same scores that can be traced; by default the model itself."""
        return self

    def of_histories(self) -> "RankingModel | None":
        """The model for users who are known by their histories only; None if it needs ids."""
        return self if self.capabilities.inputs == "histories" else None

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


ValidateTrial = Callable[[RankingModel, ClosedFormFit], float]


class DotProductModel(RankingModel):
    """score = s(v(query), w_item) / τ + b_item, with s the dot product or the cosine.

    A subclass provides query vectors v, and item vectors w as ``item_layer`` or ``item_vectors``. The product of
    ``scaled(v)`` and a row of ``item_vectors()``, plus the bias, is the score: an index of nearest neighbours needs
    these two. The cosine with a vector of zeros is 0, with gradient 0.

    Args:
        scoring: ``"dot"`` or ``"cosine"``.
        temperature: τ, or its initial value.
        learn_temperature: whether to learn log τ, without weight decay.
    """

    log_temperature: nn.Parameter | None

    def __init__(self, scoring: str = "dot", temperature: float = 1.0, learn_temperature: bool = False) -> None:
        super().__init__()
        self.cosine, self.temperature = scoring == "cosine", temperature
        learned = nn.Parameter(torch.tensor(math.log(temperature))) if learn_temperature else None
        self.register_parameter("log_temperature", learned)

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise for a temperature without the cosine, or an item bias with it."""
        if options.get("scoring", "dot") == "cosine":
            if options.get("bias"):
                fail("bias", options["bias"], "none or False with scoring='cosine'")
            return
        for name, default in (("temperature", 1.0), ("learn_temperature", False)):
            if options.get(name, default) != default:
                fail(name, options[name], f"{default!r} with scoring='dot'")

    def reset_temperature(self) -> None:
        """Reset a learned τ to its initial value."""
        if self.log_temperature is not None:
            nn.init.constant_(self.log_temperature, math.log(self.temperature))

    @abstractmethod
    def query_vectors(self, query: Any) -> Tensor:
        """V [B, D]: one vector per query."""

    @property
    def item_layer(self) -> nn.Embedding | nn.Linear:
        """The layer whose weight [N, D] holds w; a model without one has its own ``item_vectors`` and ``score``."""
        raise NotImplementedError(f"{type(self).__name__} has no item layer; use item_vectors")

    @property
    def item_bias(self) -> Tensor | None:
        """[N]: the bias of each item."""
        return None

    def scaled(self, vectors: Tensor) -> Tensor:
        """[B, D]: query vectors, of length 1 for the cosine, divided by τ."""
        if self.cosine:
            vectors = unit(vectors)
        if self.log_temperature is not None:
            return vectors * torch.exp(-self.log_temperature)
        return vectors if self.temperature == 1.0 else vectors / self.temperature

    def item_vectors(self) -> Tensor:
        """[N, D]: item vectors, of length 1 for the cosine."""
        return unit(self.item_layer.weight) if self.cosine else self.item_layer.weight

    def item_similarity(self, item: Tensor) -> Tensor:
        """[B, N]: the cosine of the item vectors."""
        vectors = unit(self.item_vectors())
        return vectors[item] @ vectors.T

    def score(self, vectors: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the query vectors [B, D]."""
        vectors, layer = self.scaled(vectors), self.item_layer
        if isinstance(layer, nn.Embedding):
            return item_scores(vectors, layer, item, self.item_bias, cosine=self.cosine)
        return table_scores(vectors, layer.weight, item, self.item_bias, cosine=self.cosine)

    def forward(self, query: Any, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for B queries."""
        return self.score(self.query_vectors(query), item)

    def score_all(self, query: Any) -> Tensor:
        """Scores [B, num_items] for B queries, by one matrix product."""
        return F.linear(self.scaled(self.query_vectors(query)), self.item_vectors(), self.item_bias)


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
