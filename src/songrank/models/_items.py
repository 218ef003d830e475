"""Scores of the items asked for, by the cheapest way that gives the same numbers. Shapes alone decide which."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import fail

WHOLE_TABLE = 64
"""Up to so many times the columns asked for, a product with the whole table beats gathering rows of it, forward and
backward: one core breaks even at 60 to 130, an H200 at 64 to 256, the wider the rows the sooner."""


def check_ids(query: Tensor) -> None:
    """Raise unless ``query`` holds ids [B]."""
    if not isinstance(query, Tensor):
        fail("query", type(query).__name__, "a tensor of ids, of shape [B]", TypeError)
    if query.dim() != 1:
        raise ValueError(f"query has shape {list(query.shape)}; expected ids, of shape [B]")
    if query.dtype != torch.int64:
        fail("query", query.dtype, "ids, of type torch.int64", TypeError)


def check_item(item: Tensor, rows: int) -> None:
    """Raise unless ``item`` holds ids [B, L] or [1, L] for B = ``rows``."""
    if not isinstance(item, Tensor):
        fail("item", type(item).__name__, "a tensor of shape [B, L] or [1, L]", TypeError)
    # Spelled out, since a compiled graph with sizes left open cannot look for a shape in a list of shapes.
    if item.dim() != 2 or (item.shape[0] != 1 and item.shape[0] != rows):
        raise ValueError(f"item has shape {list(item.shape)}; expected [B, L] or [1, L] with B={rows}")
    if item.dtype != torch.int64:
        fail("item", item.dtype, "type torch.int64", TypeError)


def table_scores(query: Tensor, table: Tensor, item: Tensor, bias: Tensor | None = None) -> Tensor:
    """Products of vectors [B, D] with the rows of the items [B, L] or [1, L] in a table [N, D], plus their biases [N].

    >>> query, table = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> table_scores(query, table, torch.tensor([[2, 0]]))
    tensor([[9., 1.],
            [3., 0.]])
    >>> table_scores(query, table, torch.tensor([[2, 0], [1, 0]]))
    tensor([[9., 1.],
            [1., 0.]])
    """
    check_item(item, query.shape[0])
    if item.shape[0] == 1:
        wanted = item[0]
        return F.linear(query, table.index_select(0, wanted), None if bias is None else bias.index_select(0, wanted))
    if table.shape[0] <= WHOLE_TABLE * item.shape[1]:
        return F.linear(query, table, bias).gather(1, item)
    scores = row_scores(query, table_rows(table, item))
    return scores if bias is None else scores + table_rows(bias, item).to(scores.dtype)


def item_scores(query: Tensor, embedding: nn.Embedding, item: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`table_scores` of an embedding's weight, or by its rows alone where their gradient is to be sparse."""
    if not embedding.sparse:
        return table_scores(query, embedding.weight, item, bias)
    scores = row_scores(query, embedding(item))
    return scores if bias is None else scores + table_rows(bias, item).to(scores.dtype)


def item_rows(embedding: nn.Embedding, item: Tensor) -> Tensor:
    """Rows of an embedding's weight, by :func:`table_rows` unless their gradient is to be sparse."""
    rows: Tensor = embedding(item) if embedding.sparse else table_rows(embedding.weight, item)
    return rows


def row_scores(query: Tensor, rows: Tensor) -> Tensor:
    """Products [B, L] of vectors [B, D] with rows [B, L, D], or [1, L, D] that all queries share."""
    if rows.shape[0] == 1:
        return F.linear(query, rows[0])
    return torch.matmul(rows, query.unsqueeze(-1)).squeeze(-1)


def table_rows(table: Tensor, item: Tensor) -> Tensor:
    """Rows of a table, of the shape of ``item``.

    Backward this is two to three times as fast as ``F.embedding``, but a GPU adds up in any order: who wants the same
    bits each time asks torch for them, with ``torch.use_deterministic_algorithms(True)``.
    """
    return table.index_select(0, item.reshape(-1)).view(*item.shape, *table.shape[1:])


def column_scores(scores: Tensor, item: Tensor) -> Tensor:
    """The columns [B, L] asked for, of scores of all items [B, N]."""
    check_item(item, scores.shape[0])
    return scores.index_select(1, item[0]) if item.shape[0] == 1 else scores.gather(1, item)
