"""Validation of model inputs, and scores of requested items with the fastest algorithm for their shape."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import check_tensor, check_type, fail

WHOLE_TABLE = 64
"""Maximum ratio of table rows to requested columns for a product with the whole table instead of a gather of rows.
Break-even of forward and backward: 60 to 130 on one core, 64 to 256 on an H200, less for wider rows."""

_SHORTEST = 1e-12  # a shorter vector has no direction


def check_ids(query: Tensor) -> None:
    """Raise unless ``query`` holds ids [B]."""
    if not isinstance(query, Tensor):
        fail("query", type(query).__name__, "a tensor of ids, of shape [B]", TypeError)
    if query.dim() != 1:
        raise ValueError(f"query has shape {list(query.shape)}; expected ids, of shape [B]")
    if query.dtype != torch.int64:
        fail("query", query.dtype, "ids, of dtype torch.int64", TypeError)


def check_item(item: Tensor, rows: int) -> None:
    """Raise unless ``item`` holds ids [B, L] or [1, L] for B = ``rows``."""
    check_tensor("item", item, "[B, L] or [1, L]")
    # Explicit, because a graph compiled with dynamic sizes cannot search a list of shapes.
    if item.dim() != 2 or (item.shape[0] != 1 and item.shape[0] != rows):
        raise ValueError(f"item has shape {list(item.shape)}; expected [B, L] or [1, L] with B={rows}")
    check_type("item", item, torch.int64)


def check_words(tokens: Tensor) -> None:
    """Raise unless ``query`` holds tokens [B, T], padded with 0 at the end."""
    if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.shape[1] == 0:
        fail("query", getattr(tokens, "shape", type(tokens).__name__), "tokens, of shape [B, T]")
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        fail("query", tokens.dtype, "tokens, of dtype torch.int64", TypeError)


def check_history(history: Tensor) -> None:
    """Raise unless ``history`` holds items [B, T]."""
    if not isinstance(history, Tensor) or history.dtype != torch.int64:
        given = history.dtype if isinstance(history, Tensor) else type(history).__name__
        fail("history", given, "a tensor of items, of dtype torch.int64", TypeError)
    if history.dim() != 2:
        raise ValueError(f"history has shape {list(history.shape)}; expected items of B users, of shape [B, T]")


def last_items(history: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The last ``length`` items of each row, [B, T] padded with −1 at the end, and their number [B]."""
    check_history(history)
    count = (history >= 0).sum(1)
    if history.shape[1] <= length:
        return history, count
    return last_columns(history, count, length), count.clamp(max=length)


def last_columns(values: Tensor, count: Tensor, length: int) -> Tensor:
    """The last ``length`` of the first ``count`` [B] values of each row [B, T], or all with T of at most ``length``."""
    if values.shape[1] <= length:
        return values
    first = (count - length).clamp_min(0).unsqueeze(1)
    return values.gather(1, first + torch.arange(length, device=values.device))


def check_times(time: Tensor | None, history: Tensor) -> None:
    """Raise unless ``time`` holds the times of the items [B, T]."""
    if not isinstance(time, Tensor) or time.dtype != torch.int64:
        given = time.dtype if isinstance(time, Tensor) else type(time).__name__
        fail("time", given, "the times of the items, of dtype torch.int64", TypeError)
    if time.shape != history.shape:
        fail("time", list(time.shape), f"the shape of the items, {list(history.shape)}")


def read_lists(features: Tensor, mask: Tensor, num_features: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Features [B, L, F] of this ``dtype`` with zeroed padding, and the mask [B, L].

    Padding is zeroed first, because NaN there would propagate to the gradient of the weights.
    """
    check_tensor("features", features, "[B, L, F]")
    if features.dim() != 3 or features.shape[2] != num_features:
        raise ValueError(f"features has shape {list(features.shape)}; expected [B, L, F] with F={num_features}")
    rows, columns = features.shape[:2]
    check_tensor("mask", mask, "[B, L] or [1, L]")
    if mask.dim() != 2 or mask.shape[1] != columns or (mask.shape[0] != 1 and mask.shape[0] != rows):
        raise ValueError(f"mask has shape {list(mask.shape)}; expected [B, L] or [1, L], here {[rows, columns]}")
    check_type("mask", mask, torch.bool)
    return features.to(dtype).masked_fill(~mask.unsqueeze(-1), 0.0), mask.expand(rows, columns)


def table_scores(
    query: Tensor, table: Tensor, item: Tensor, bias: Tensor | None = None, *, cosine: bool = False
) -> Tensor:
    """Products of vectors [B, D] with rows of a table [N, D], plus biases [N], for the items [B, L] or [1, L].

    With ``cosine``, rows are divided by their lengths.
    """
    check_item(item, query.shape[0])
    if item.shape[0] == 1:
        wanted, own = item[0], None if bias is None else bias.index_select(0, item[0])
        rows = table.index_select(0, wanted)
        return F.linear(query, unit(rows) if cosine else rows, own)
    if table.shape[0] <= WHOLE_TABLE * item.shape[1]:
        return F.linear(query, unit(table) if cosine else table, bias).gather(1, item)
    by_item = cosine and item.numel() >= table.shape[0]  # then lengths are computed once per item, not once per pair
    scores = row_scores(query, table_rows(table, item), cosine=cosine and not by_item)
    if by_item:
        scores = scores / table_rows(_lengths(table).squeeze(-1), item)
    return scores if bias is None else scores + table_rows(bias, item).to(scores.dtype)


def item_scores(
    query: Tensor, embedding: nn.Embedding, item: Tensor, bias: Tensor | None = None, *, cosine: bool = False
) -> Tensor:
    """:func:`table_scores` of an embedding's weight; only its rows are read if their gradient is sparse."""
    if not embedding.sparse:
        return table_scores(query, embedding.weight, item, bias, cosine=cosine)
    scores = row_scores(query, embedding(item), cosine=cosine)
    return scores if bias is None else scores + table_rows(bias, item).to(scores.dtype)


def item_rows(embedding: nn.Embedding, item: Tensor) -> Tensor:
    """Rows of an embedding's weight, by :func:`table_rows` unless their gradient is sparse."""
    rows: Tensor = embedding(item) if embedding.sparse else table_rows(embedding.weight, item)
    return rows


def row_scores(query: Tensor, rows: Tensor, *, cosine: bool = False) -> Tensor:
    """Products [B, L] of vectors [B, D] with rows [B, L, D] or shared rows [1, L, D]; with ``cosine``, of rows
    divided by their lengths.
    """
    if rows.shape[0] == 1:
        return F.linear(query, unit(rows[0]) if cosine else rows[0])
    scores = torch.matmul(rows, query.unsqueeze(-1)).squeeze(-1)
    # Dividing the scores is equal to dividing the rows, and reads the largest tensor less often.
    return scores / _lengths(rows).squeeze(-1) if cosine else scores


def unit(vectors: Tensor) -> Tensor:
    """Vectors [..., D] divided by their lengths; a vector of zeros stays, with gradient 0.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return vectors / _lengths(vectors)


def _lengths(vectors: Tensor) -> Tensor:
    """[..., 1]: the lengths of vectors, ∞ for vectors without a direction."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return torch.where(length > _SHORTEST, length, torch.inf)


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
