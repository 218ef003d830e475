"""Scores of requested items, with the fastest of several equivalent algorithms, chosen by shape."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.models._inputs import check_item

WHOLE_TABLE = 64
"""Maximum ratio of table rows to requested columns for a product with the whole table instead of a gather of rows.
Break-even of forward and backward: 60 to 130 on one core, 64 to 256 on an H200, less for wider rows."""


def table_scores(query: Tensor, table: Tensor, item: Tensor, bias: Tensor | None = None) -> Tensor:
    """Products of vectors [B, D] with rows of a table [N, D], plus biases [N], for the items [B, L] or [1, L]."""
    check_item(item, query.shape[0])
    if item.shape[0] == 1:
        wanted = item[0]
        return F.linear(query, table.index_select(0, wanted), None if bias is None else bias.index_select(0, wanted))
    if table.shape[0] <= WHOLE_TABLE * item.shape[1]:
        return F.linear(query, table, bias).gather(1, item)
    scores = row_scores(query, table_rows(table, item))
    return scores if bias is None else scores + table_rows(bias, item).to(scores.dtype)


def item_scores(query: Tensor, embedding: nn.Embedding, item: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`table_scores` of an embedding's weight; only its rows are read if their gradient is sparse."""
    if not embedding.sparse:
        return table_scores(query, embedding.weight, item, bias)
    scores = row_scores(query, embedding(item))
    return scores if bias is None else scores + table_rows(bias, item).to(scores.dtype)


def item_rows(embedding: nn.Embedding, item: Tensor) -> Tensor:
    """Rows of an embedding's weight, by :func:`table_rows` unless their gradient is sparse."""
    rows: Tensor = embedding(item) if embedding.sparse else table_rows(embedding.weight, item)
    return rows


def row_scores(query: Tensor, rows: Tensor) -> Tensor:
    """Products [B, L] of vectors [B, D] with rows [B, L, D] or shared rows [1, L, D]."""
    if rows.shape[0] == 1:
        return F.linear(query, rows[0])
    return torch.matmul(rows, query.unsqueeze(-1)).squeeze(-1)


def table_rows(table: Tensor, item: Tensor) -> Tensor:
    """Rows of a table, in the shape of ``item``.

    Its backward pass is two to three times as fast as that of ``F.embedding``, but deterministic on a GPU only with
    ``torch.use_deterministic_algorithms(True)``.
    """
    return table.index_select(0, item.reshape(-1)).view(*item.shape, *table.shape[1:])


def column_scores(scores: Tensor, item: Tensor) -> Tensor:
    """The requested columns [B, L] of the scores of all items [B, N]."""
    check_item(item, scores.shape[0])
    return scores.index_select(1, item[0]) if item.shape[0] == 1 else scores.gather(1, item)
