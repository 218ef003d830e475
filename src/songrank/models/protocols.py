"""Protocols of the two kinds of models; any module with these methods can be used."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class CatalogueModel(Protocol):
    """All queries rank the same items: recommendation and multi-label classification.

    ``query`` is the input for B queries: ids [B], features [B, F] or sparse rows, or tokens [B, T].

    >>> from songrank.models import MatrixFactorisation
    >>> isinstance(MatrixFactorisation(num_queries=3, num_items=5), CatalogueModel)
    True
    """

    def __call__(self, query: Any, item: Tensor, /) -> Tensor:
        """Scores [B, L] of the items int64 [B, L], or [1, L] if all queries share their candidates."""
        ...

    def score_all(self, query: Any, /) -> Tensor:
        """Scores [B, num_items]; equals a call with all items, but is faster."""
        ...

    def reset_head(self) -> None:
        """Reinitialise the last layer only, as in the paper before fine-tuning."""
        ...


@runtime_checkable
class ListModel(Protocol):
    """Each query has its own documents with features: search.

    >>> from songrank.models import MLPScorer
    >>> isinstance(MLPScorer(num_features=4), ListModel)
    True
    """

    def __call__(self, features: Tensor, mask: Tensor, /) -> Tensor:
        """Scores [B, L] of documents [B, L, F]; 0 where the mask [B, L] is False."""
        ...

    def reset_head(self) -> None:
        """Reinitialise the last layer only, as in the paper before fine-tuning."""
        ...
