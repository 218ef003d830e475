"""Matrix factorisation: the plainest model of a catalogue, and often a hard one to beat."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import check_int
from songrank.models._items import check_ids, few_rows, item_scores

_STD = 0.1


class MatrixFactorisation(nn.Module):
    """score = p_query · q_item + b_item (Koren et al., *Matrix Factorization Techniques*, Computer 2009).

    Queries have no bias: added to a whole list it changes no ranking.

    Args:
        num_queries: number of queries (users).
        num_items: items of the catalogue.
        dim: number of factors.
        bias: learn b, which takes up how popular an item is.

    >>> from songrank.models import MatrixFactorisation
    >>> model = MatrixFactorisation(num_queries=4, num_items=9, dim=8)
    >>> query = torch.tensor([2, 0])
    >>> model(query, item=torch.tensor([[8, 1, 3], [0, 1, 2]])).shape
    torch.Size([2, 3])
    >>> torch.allclose(model(query, item=torch.arange(9).unsqueeze(0)), model.score_all(query), atol=1e-6)
    True

    """

    def __init__(self, num_queries: int, num_items: int, dim: int = 64, bias: bool = True) -> None:
        super().__init__()
        self.num_items = check_int("num_items", num_items)
        self.query_factors = nn.Embedding(check_int("num_queries", num_queries), check_int("dim", dim))
        self.item_factors = nn.Embedding(num_items, dim)
        self.bias = nn.Parameter(torch.zeros(num_items)) if bias else None
        for table in (self.query_factors, self.item_factors):
            nn.init.normal_(table.weight, std=_STD)

    def reset_head(self) -> None:
        """Set the biases to 0: a product has no weights of its own, and factors are embeddings, which stay."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the queries [B]."""
        check_ids(query)
        return item_scores(self.query_factors(query), self.item_factors, item, self.bias)

    def row_tables(self, pairs: int) -> dict[str, list[nn.Embedding]]:
        """Embeddings of which a step over ``pairs`` pairs reads few rows (see :class:`CatalogueModel`)."""
        return few_rows(pairs, [self.query_factors], [self.item_factors])

    def score_all(self, query: Tensor) -> Tensor:
        """Scores [B, num_items] for the queries [B]: one product of matrices."""
        check_ids(query)
        return F.linear(self.query_factors(query), self.item_factors.weight, self.bias)
