"""The two kinds of models, by how they are called. Any module with the same calls works as well."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class CatalogueModel(Protocol):
    """All queries rank the same items: recommendation and labelling.

    ``query`` is whatever describes B queries to this model: ids [B], features [B, F] or sparse rows, tokens [B, T].

    >>> from songrank.models import MatrixFactorisation
    >>> isinstance(MatrixFactorisation(num_queries=3, num_items=5), CatalogueModel)
    True
    """

    def __call__(self, query: Any, item: Tensor, /) -> Tensor:
        """Scores [B, L] of the items int64 [B, L], or [1, L] if all queries share their candidates."""
        ...

    def score_all(self, query: Any, /) -> Tensor:
        """Scores [B, num_items]: those of the call with all items, at lower cost."""
        ...

    def reset_head(self) -> None:
        """Initialise the last layer again and leave all others alone, as the paper does before fine-tuning."""
        ...


@runtime_checkable
class ListModel(Protocol):
    """Each query has its own documents, described by features: search.

    >>> from songrank.models import MLPScorer
    >>> isinstance(MLPScorer(num_features=4), ListModel)
    True
    """

    def __call__(self, features: Tensor, mask: Tensor, /) -> Tensor:
        """Scores [B, L] of documents [B, L, F]; 0 where the mask [B, L] is False, whatever the features are."""
        ...

    def reset_head(self) -> None:
        """Initialise the last layer again and leave all others alone, as the paper does before fine-tuning."""
        ...
