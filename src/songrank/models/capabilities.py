"""What a model declares about itself; training, evaluation, serving and warm start rely on nothing else."""

from dataclasses import dataclass
from typing import Literal

Query = Literal["ids", "history", "sequence", "documents", "features", "tokens"]

_ON_DISK: dict[Query, str] = {"history": "histories", "sequence": "histories", "tokens": "words"}


@dataclass(frozen=True)
class Capabilities:
    """One value per model class.

    Args:
        query: what describes a query to the model: its id, a set of items (``"history"``) or an ordered list of items
            (``"sequence"``), its documents, the features of a text, or the tokens of a text.
        query_tables: names of the parameters with one row per query id; warm start moves their rows with the ids.
        item_tables: likewise with one row per item id.
        sparse_rows: whether a step reads only the rows of the slate's queries and items in these tables, by calling
            their embeddings; then an optimiser may update those rows alone.
        dot_product: whether a score is the product of a query vector and an item vector, plus the item's bias.
        tiled: whether ``score_all`` works in tiles whose number depends on the number of queries. An exported graph has
            a fixed number of operations, so an export records the call with all items instead.
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
        """The name of this kind of query in model folders."""
        return _ON_DISK.get(self.query, self.query)
