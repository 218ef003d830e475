"""Matrix factorisation, a simple and often strong baseline for recommendation."""

import torch
from torch import Tensor, nn

from songrank.core.options import Count, checked
from songrank.models._inputs import check_ids
from songrank.models.base import Capabilities, DotProductModel, Scoring, Temperature

_STD = 0.1


class MatrixFactorisation(DotProductModel):
    """score = p_query · q_item + b_item (Koren et al., *Matrix Factorization Techniques*, Computer 2009).

    With ``scoring="cosine"``: score = cos(p_query, q_item) / τ.

    Queries have no bias, because it would not affect the ranking.

    Args:
        num_queries: number of queries (users).
        num_items: number of items.
        dim: number of factors.
        bias: whether to learn item biases b; by default with ``"dot"`` only.
        scoring: ``"dot"`` or ``"cosine"``, which has no biases.
        temperature: τ of the cosine, or its initial value.
        learn_temperature: whether to learn τ.

    >>> from songrank.models import MatrixFactorisation
    >>> model = MatrixFactorisation(num_queries=4, num_items=9, dim=8)
    >>> query = torch.tensor([2, 0])
    >>> model(query, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape, model.score_all(query).shape
    (torch.Size([2, 3]), torch.Size([2, 9]))
    """

    capabilities = Capabilities(
        "ids",
        query_tables=("query_factors.weight",),
        item_tables=("item_factors.weight", "bias"),
        sparse_rows=True,
        dot_product=True,
    )

    @checked
    def __init__(
        self,
        num_queries: Count,
        num_items: Count,
        dim: Count = 64,
        bias: bool | None = None,
        scoring: Scoring = "dot",
        temperature: Temperature = 1.0,
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(scoring, temperature, learn_temperature)
        self.num_items = num_items
        self.query_factors = nn.Embedding(num_queries, dim)
        self.item_factors = nn.Embedding(num_items, dim)
        biased = not self.cosine if bias is None else bias
        self.bias = nn.Parameter(torch.zeros(num_items)) if biased else None
        for table in (self.query_factors, self.item_factors):
            nn.init.normal_(table.weight, std=_STD)

    @property
    def item_layer(self) -> nn.Embedding:
        """The item factors."""
        return self.item_factors

    @property
    def item_bias(self) -> Tensor | None:
        """Item biases, if learned."""
        return self.bias

    def reset_head(self) -> None:
        """Set the biases to 0 and reset a learned τ; the embeddings are kept."""
        self.reset_temperature()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def query_vectors(self, query: Tensor) -> Tensor:
        """[B, dim]: the factors of the queries [B]."""
        check_ids(query)
        vectors: Tensor = self.query_factors(query)
        return vectors
