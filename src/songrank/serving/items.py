"""Items for users: the best of the catalogue that a user has not met, and a stated answer for who was never seen.

A model of histories also answers whoever brings one.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.core.checks import check_int
from songrank.core.csr import CSR
from songrank.core.errors import DataError, UserError, shown
from songrank.core.ids import Ids
from songrank.models.model_folder import ModelFolder

FALLBACKS = ("popular", "none", "error")
_SCORES = {"cpu": 2**24, "cuda": 2**28}  # scores that are held at once
_BYTES = {"cpu": 2**28, "cuda": 2**32}  # of what the model makes of histories at once


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
    assert folder.item_counts is not None
    users = _in_order(users)
    number = folder.query_ids.find(users)
    if fallback == "error" and bool((number < 0).any()):
        place = int((number < 0).nonzero()[0])
        unknown = (users.tolist() if hasattr(users, "tolist") else users)[place]
        raise UserError(
            f"user {shown(unknown)} was never seen in training; expected known users only, or fallback popular or none"
        )
    barred = _barred(folder.item_ids, allow, deny).to(folder.device)
    popular = _popular(folder.item_counts, barred, k) if fallback == "popular" else None
    met = folder.seen if exclude_seen else None
    step = queries_at_once(folder, len(folder.item_ids))
    return (
        _batch(folder, number[first : first + step], first, k, barred, popular, met)
        for first in range(0, number.shape[0], step)
    )


def recommend_after(
    folder: ModelFolder,
    histories: CSR,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    met: CSR | None = None,
    allow: Sequence[Any] | Any | None = None,
    deny: Sequence[Any] | Any = (),
) -> Iterator[Recommendations]:
    """The k best items after each of these histories, whoever's they are; batch by batch, as in :func:`recommend`.

    A history without items is answered by the model too, as one that is about to begin.

    Args:
        folder: of a model that reads histories.
        histories: numbers of items, oldest first; see :func:`songrank.data.histories.table_histories`.
        k: how many items a history.
        exclude_seen: leave out what was met.
        met: what that is, for each history, if it is more than stands in the history itself.
        allow: original ids of the only items that may be recommended; None for all.
        deny: original ids of items that may not.

    """
    k = check_k(k)
    need_histories(folder)
    assert folder.item_ids is not None
    barred = _barred(folder.item_ids, allow, deny).to(folder.device)
    step = queries_at_once(folder, len(folder.item_ids))
    seen = None if not exclude_seen else histories if met is None else met
    return (
        _batch_after(folder, histories, first, min(step, len(histories) - first), k, barred, seen)
        for first in range(0, len(histories), step)
    )


def need_histories(folder: ModelFolder) -> None:
    """Raise unless the model reads histories."""
    folder.need("recommendation")
    if folder.histories is None:
        name = folder.info["model"]["name"]
        fix = "train with model=sequence or model=history, or ask for users that it knows"
        raise DataError(f"holds {name}, which knows users by their ids alone", fix, file=str(folder.path))


def queries_at_once(folder: ModelFolder, scores: int) -> int:
    """How many users are scored at once in bounded memory, with so many scores for each."""
    kind = folder.device.type
    room = _BYTES.get(kind, 2**28) // max(1, getattr(folder.model, "query_bytes", 1))
    return max(1, min(_SCORES.get(kind, 2**26) // scores, room))


def score_users(folder: ModelFolder, user: Tensor) -> Tensor:
    """[B, N]: scores of all items for these known users, in bounded memory besides."""
    assert folder.item_ids is not None
    step = queries_at_once(folder, len(folder.item_ids))
    with torch.no_grad():
        return torch.cat([_scores(folder, folder.queries(part)) for part in torch.split(user, step)])


def _scores(folder: ModelFolder, query: Tensor) -> Tensor:
    scores: Tensor = folder.model.score_all(query)  # type: ignore[operator]
    return scores.float()


def check_k(k: Any) -> int:
    """How many are asked for.

    >>> check_k(0)
    Traceback (most recent call last):
    songrank.core.errors.UserError: k is 0; expected a whole number of at least 1
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
    met: CSR | None,
) -> Recommendations:
    known = (number >= 0).nonzero().squeeze(-1)
    user = number[known]
    entries = None if met is None else _entries(met, user)
    rows, item, score = _best(folder, folder.queries(user), k, barred, entries)
    parts = [(known[rows], item, score, torch.ones_like(rows, dtype=torch.bool))]
    strangers = (number < 0).nonzero().squeeze(-1)
    if popular is not None and strangers.numel():
        item, score = popular
        row = strangers.repeat_interleave(item.shape[0])
        parts.append((row, item.repeat(strangers.numel()), score.repeat(strangers.numel()), torch.zeros_like(row) > 0))
    row, item, score, by_model = (torch.cat(columns) for columns in zip(*parts, strict=True))
    order = torch.argsort(row, stable=True)
    row, item, score, by_model = row[order], item[order], score[order], by_model[order]
    return Recommendations(row + first, item, score, _ranks(row), by_model, number.shape[0])


def _batch_after(
    folder: ModelFolder, histories: CSR, first: int, count: int, k: int, barred: Tensor, seen: CSR | None
) -> Recommendations:
    asked = torch.arange(first, first + count)
    entries = None if seen is None else _entries(seen, asked)
    row, item, score = _best(folder, folder.history_input(histories, asked), k, barred, entries)
    return Recommendations(row + first, item, score, _ranks(row), torch.ones_like(row, dtype=torch.bool), count)


def _entries(lists: CSR, rows: Tensor) -> tuple[Tensor, Tensor]:
    """All items of these rows: which of ``rows`` each belongs to, and the item."""
    owner, at = lists.entries(rows)
    return owner, lists["item"][at].long()


def _ranks(row: Tensor) -> Tensor:
    """From 1, counted from where each row's user begins."""
    return torch.arange(row.shape[0]) - torch.searchsorted(row, row) + 1


def _best(
    folder: ModelFolder, query: Tensor, k: int, barred: Tensor, met: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Row, item and score of the k best for each of these queries, best first, less what was met: rows and items."""
    if not query.shape[0]:
        nothing = torch.zeros(0, dtype=torch.int64)
        return nothing, nothing, torch.zeros(0)
    with torch.no_grad():
        scores = _scores(folder, query)
    scores[:, barred] = -torch.inf
    if met is not None:
        row, item = met
        scores[row.to(scores.device), item.to(scores.device)] = -torch.inf
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
