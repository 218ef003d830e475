"""Items for users: the best of the catalogue that a user has not met, and a stated answer for who was never seen."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank._checks import check_int
from songrank.data.ids import Ids
from songrank.errors import UserError, shown
from songrank.inference.model_folder import ModelFolder

FALLBACKS = ("popular", "none", "error")
_SCORES = {"cpu": 2**24, "cuda": 2**28}  # scores that are held at once


@dataclass(frozen=True)
class Recommendations:
    """Rows of one batch of users: who, what, how good, which place, and whether the model or the fallback said so.

    Args:
        position: which of the users that were asked about each row is for, from 0.
        item: number of the item.
        score: the model's, or for the fallback how many users met the item in training.
        rank: from 1.
        known: False where the user was never seen in training, and the rows are the fallback's.
        num_users: how many users were asked about in this batch, with rows or without.

    """

    position: Tensor
    item: Tensor
    score: Tensor
    rank: Tensor
    known: Tensor
    num_users: int


def recommend(
    folder: ModelFolder,
    users: Sequence[Any] | Any,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    allow: Sequence[Any] | Any | None = None,
    deny: Sequence[Any] | Any = (),
    fallback: str = "popular",
) -> Iterator[Recommendations]:
    """The k best items for each user, batch by batch in bounded memory; fewer where fewer are left.

    What is wrong with the arguments is said at the call, before the first batch.

    Args:
        folder: of a recommendation task.
        users: original ids, a sequence, an array or a column of pandas or polars, in any order; one may occur twice.
        k: how many items a user.
        exclude_seen: leave out what the user met in any split of the data.
        allow: original ids of the only items that may be recommended; None for all.
        deny: original ids of items that may not.
        fallback: for users who were never seen: ``"popular"``, the items that most users met in training; ``"none"``,
            no rows; ``"error"``.

    Scores that are equal are ordered by the number of the item, on any device and in any batch.

    """
    k = check_k(k)
    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {shown(fallback)}; expected one of {', '.join(map(repr, FALLBACKS))}")
    folder.need("recommendation")
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    assert folder.seen is not None
    users = _in_order(users)
    number = folder.query_ids.find(users)
    if fallback == "error" and bool((number < 0).any()):
        place = int((number < 0).nonzero()[0])
        unknown = (users.tolist() if hasattr(users, "tolist") else users)[place]
        raise UserError(
            f"user {shown(unknown)} was never seen in training; expected known users only, or fallback popular or none"
        )
    barred = _barred(folder.item_ids, allow, deny).to(folder.device)
    popular = _popular(folder.seen["count"], barred, k) if fallback == "popular" else None
    step = max(1, _SCORES.get(folder.device.type, 2**26) // len(folder.item_ids))
    return (
        _batch(folder, number[first : first + step], first, k, barred, popular, exclude_seen)
        for first in range(0, number.shape[0], step)
    )


def check_k(k: Any) -> int:
    """How many are asked for.

    >>> check_k(0)
    Traceback (most recent call last):
    songrank.errors.UserError: k is 0; expected a whole number of at least 1
    """
    try:
        return check_int("k", k)
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from None


def _in_order(users: Any) -> Any:
    """Users as something that has places; a set has none, and one user alone is a mistake."""
    alone = isinstance(users, str | bytes) or not hasattr(users, "__iter__") or getattr(users, "ndim", 1) == 0
    if alone or isinstance(users, Set | Mapping):
        found = shown(users) if alone else f"a {type(users).__name__}"
        raise UserError(f"users is {found}; expected a list or a column of ids, in order")
    if getattr(users, "ndim", 1) != 1 or hasattr(users, "columns"):
        raise UserError(f"users has shape {list(users.shape)}; expected one column of ids")
    return users if hasattr(users, "shape") else list(users)


def _barred(items: Ids, allow: Any, deny: Any) -> Tensor:
    """[N]: which items may not be recommended to anybody."""
    barred = torch.zeros(len(items), dtype=torch.bool)
    if allow is not None:
        allowed = items.find(allow)
        if not bool((allowed >= 0).any()):
            raise UserError("allow names no item that the model knows; nothing could be recommended")
        barred[:] = True
        barred[allowed[allowed >= 0]] = False
    denied = items.find(deny)
    barred[denied[denied >= 0]] = True
    if bool(barred.all()):
        raise UserError("allow and deny leave no item; nothing could be recommended")
    return barred


def _popular(count: Tensor, barred: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The items that most met in training, and how many."""
    order = torch.argsort(count, descending=True, stable=True)
    order = order[~barred.cpu()[order]][:k]
    return order, count[order].float()


def _batch(
    folder: ModelFolder,
    number: Tensor,
    first: int,
    k: int,
    barred: Tensor,
    popular: tuple[Tensor, Tensor] | None,
    exclude_seen: bool,
) -> Recommendations:
    known = (number >= 0).nonzero().squeeze(-1)
    rows, item, score = _best(folder, number[known], k, barred, exclude_seen)
    parts = [(known[rows], item, score, torch.ones_like(rows, dtype=torch.bool))]
    strangers = (number < 0).nonzero().squeeze(-1)
    if popular is not None and strangers.numel():
        item, score = popular
        row = strangers.repeat_interleave(item.shape[0])
        parts.append((row, item.repeat(strangers.numel()), score.repeat(strangers.numel()), torch.zeros_like(row) > 0))
    row, item, score, by_model = (torch.cat(columns) for columns in zip(*parts, strict=True))
    order = torch.argsort(row, stable=True)
    row, item, score, by_model = row[order], item[order], score[order], by_model[order]
    rank = torch.arange(row.shape[0]) - torch.searchsorted(row, row) + 1  # from where each row's user begins
    return Recommendations(row + first, item, score, rank, by_model, number.shape[0])


def _best(
    folder: ModelFolder, query: Tensor, k: int, barred: Tensor, exclude_seen: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Row, item and score of the k best for each of these known users, best first."""
    if not query.numel():
        return query, query, torch.zeros(0)
    with torch.no_grad():
        scores = folder.model.score_all(query.to(folder.device)).float()  # type: ignore[operator]
    scores[:, barred] = -torch.inf
    if exclude_seen:
        assert folder.seen is not None
        offsets, item = folder.seen["offsets"], folder.seen["item"]
        counts = offsets[query + 1] - offsets[query]
        row = torch.repeat_interleave(torch.arange(query.shape[0]), counts)
        within = torch.arange(row.shape[0]) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        met = item[torch.repeat_interleave(offsets[query], counts) + within].long()
        scores[row.to(scores.device), met.to(scores.device)] = -torch.inf
    wide = min(scores.shape[1], k)
    value, item = top(scores, wide)
    left = value > -torch.inf
    row = torch.arange(query.shape[0]).unsqueeze(1).expand(-1, wide)
    return row[left], item[left], value[left]


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, best first, and where they stand; of equal ones those that stand first. −∞ is none.

    >>> top(torch.tensor([[1.0, 3.0, 3.0, 1.0]]), 3)[1].tolist()
    [[1, 2, 0]]
    """
    value, item = scores.topk(min(k + 1, scores.shape[1]))
    tied = (value[:, k - 1 : k] == value[:, k:]).any(1) & (value[:, k - 1] > -torch.inf)
    value, item = value[:, :k], item[:, :k]
    if bool(tied.any()):  # rare: a full sort decides by place, in these rows alone
        ordered, place = torch.sort(scores[tied], dim=1, descending=True, stable=True)
        value[tied], item[tied] = ordered[:, :k], place[:, :k]
    item, order = item.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value.cpu(), item.gather(1, order).cpu()
