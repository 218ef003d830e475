"""Declared capabilities of models, for training, evaluation, serving and warm start."""

from dataclasses import dataclass
from typing import Literal

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
