"""LightGCN: embeddings of users and items, averaged over their neighbourhoods in the graph of training pairs."""

from functools import cache
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from songrank.core.checks import check_int
from songrank.core.options import Annotated, Count, Layers, checked
from songrank.models._graph import bipartite_graph, check_graph, propagate
from songrank.models._inputs import check_ids, table_scores, unit
from songrank.models.base import Capabilities, DotProductModel, Scoring, Temperature
from songrank.models.matrix_factorisation import MatrixFactorisation

_STD = 0.1


class _Kept(NamedTuple):
    """Propagated tables, with aliases of the tensors that they depend on and their state."""

    of: tuple[Tensor, ...]
    state: tuple[int, ...]
    tables: tuple[Tensor, Tensor]


def _state(tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    """Changes whenever these tensors may have changed: addresses, versions, and steps of optimisers."""
    return (*(part for tensor in tensors for part in (tensor.data_ptr(), tensor._version)), *_optimiser_steps())


@cache
def _optimiser_steps() -> list[int]:
    """The number of steps of all optimisers since the first call: fused ones do not change versions."""
    steps = [0]

    def count(*_: Any) -> None:
        steps[0] += 1

    register_optimizer_step_post_hook(count)
    return steps


class LightGCN(DotProductModel):
    """score = p_query · q_item or cos(p_query, q_item) / τ, with propagated vectors.

    As in He et al., *LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation*, SIGIR 2020. With
    E the embeddings of all queries and items, and A the adjacency matrix of the training pairs:

        (p, q) = (1 / (K + 1)) Σ_{k=0}^K Âᵏ E,      Â = D^{−1/2} A D^{−1/2}

    A query or item without training pairs has its embedding, divided by K + 1. There are no biases.

    A training step propagates once, over the whole graph. In evaluation mode without gradients, propagated vectors are
    reused until the weights change; a change through ``weight.data`` is not noticed before ``eval()`` or ``train()``.

    Args:
        num_queries: number of queries (users).
        num_items: number of items.
        edges: int64 [2, E]: query and item of each training pair. To load a state dict, the number of pairs.
        dim: width of the embeddings.
        layers: K.
        scoring: ``"dot"`` or ``"cosine"``.
        temperature: τ of the cosine, or its initial value.
        learn_temperature: whether to learn τ.

    >>> from songrank.models import LightGCN
    >>> edges = torch.tensor([[0, 0, 1, 3], [8, 1, 1, 2]])
    >>> model, query = LightGCN(num_queries=4, num_items=9, edges=edges, dim=8), torch.tensor([2, 0])
    >>> model(query, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape, model.score_all(query).shape
    (torch.Size([2, 3]), torch.Size([2, 9]))
    """

    capabilities = Capabilities(
        "ids",
        query_tables=("query_embedding.weight",),
        item_tables=("item_embedding.weight",),
        dot_product=True,
        graph=("offsets", "neighbours"),
    )
    offsets: Tensor
    neighbours: Tensor

    @checked
    def __init__(
        self,
        num_queries: Count,
        num_items: Count,
        edges: Tensor | int,
        dim: Count = 64,
        layers: Annotated[int, Layers()] = 2,
        scoring: Scoring = "dot",
        temperature: Temperature = 1.0,
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(scoring, temperature, learn_temperature)
        self.num_queries, self.num_items, self.layers = num_queries, num_items, layers
        self.query_embedding = nn.Embedding(num_queries, dim)
        self.item_embedding = nn.Embedding(num_items, dim)
        for table in (self.query_embedding, self.item_embedding):
            nn.init.normal_(table.weight, std=_STD)
        if isinstance(edges, Tensor):
            graph = bipartite_graph(edges, num_queries, num_items)
        else:
            sizes = (num_queries + num_items + 1, 2 * check_int("edges", edges, 0))
            graph = (torch.zeros(sizes[0], dtype=torch.int32), torch.zeros(sizes[1], dtype=torch.int32))
        for name, part in zip(self.capabilities.graph, graph, strict=True):
            self.register_buffer(name, part)
        self._kept: _Kept | None = None

    def reset_head(self) -> None:
        """Reset a learned τ; there is no other head."""
        self.reset_temperature()

    def check_buffers(self) -> None:
        """Raise ``ValueError`` unless the buffers are the graph of these queries and items."""
        check_graph(self.offsets, self.neighbours, self.num_queries)

    def for_export(self) -> MatrixFactorisation:
        """Matrix factorisation with the propagated vectors as factors."""
        learned = self.log_temperature
        sizes = (self.num_queries, self.num_items, self.query_embedding.embedding_dim)
        scoring = "cosine" if self.cosine else "dot"
        same = MatrixFactorisation(*sizes, False, scoring, self.temperature, learned is not None)
        with torch.no_grad():
            for factors, table in zip((same.query_factors, same.item_factors), self._propagated(), strict=True):
                factors.weight = nn.Parameter(table.clone())
            if learned is not None and same.log_temperature is not None:
                same.log_temperature.copy_(learned)
        return same.to(self.offsets.device)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; propagated vectors are computed again."""
        self._kept = None
        return super().train(mode)

    def query_vectors(self, query: Tensor) -> Tensor:
        """[B, dim]: the propagated vectors of the queries [B]."""
        return self._rows(self._tables()[0], query)

    def item_vectors(self) -> Tensor:
        """[num_items, dim]: the propagated vectors of all items, of length 1 for the cosine."""
        items = self._tables()[1]
        return unit(items) if self.cosine else items

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the queries [B]."""
        queries, items = self._tables()
        return table_scores(self.scaled(self._rows(queries, query)), items, item, cosine=self.cosine)

    def score(self, vectors: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the query vectors [B, dim]."""
        return table_scores(self.scaled(vectors), self._tables()[1], item, cosine=self.cosine)

    def score_all(self, query: Tensor) -> Tensor:
        """Scores [B, num_items] for the queries [B], by one matrix product."""
        queries, items = self._tables()
        vectors = self.scaled(self._rows(queries, query))
        return nn.functional.linear(vectors, unit(items) if self.cosine else items)

    @staticmethod
    def _rows(queries: Tensor, query: Tensor) -> Tensor:
        check_ids(query)
        return queries.index_select(0, query)

    def _tables(self) -> tuple[Tensor, Tensor]:
        """The propagated vectors of queries and items, kept if they are needed again."""
        now = (self.query_embedding.weight, self.item_embedding.weight, self.offsets, self.neighbours)
        differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in now)
        if self.training or differentiated or torch.compiler.is_compiling():
            self._kept = None
            return self._propagated()
        if any(tensor.is_inference() for tensor in now):  # without versions
            return self._propagated()
        state = _state(now)
        if self._kept is None or self._kept.state != state:
            aliases = tuple(tensor.detach() for tensor in now)  # so that their memory is not used for other weights
            self._kept = _Kept(aliases, state, self._propagated())
        return self._kept.tables

    def _propagated(self) -> tuple[Tensor, Tensor]:
        embeddings = torch.cat([self.query_embedding.weight, self.item_embedding.weight])
        vectors = propagate(embeddings, self.offsets, self.neighbours, self.layers)
        return vectors[: self.num_queries], vectors[self.num_queries :]
