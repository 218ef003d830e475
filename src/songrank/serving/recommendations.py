"""Recommendations: the k best items of the catalogue that a user has not seen; new users get a stated fallback.

A model that reads histories also answers for new histories.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.core.checks import check_int
from songrank.core.csr import CSR
from songrank.core.errors import DataError, UserError, shown
from songrank.core.ids import Ids
from songrank.data.adapters.value_lists import id_at, ids_in_order
from songrank.models.model_folder import ModelFolder
from songrank.serving.batches import queries_at_once

FALLBACKS = ("popular", "none", "error")


@dataclass(frozen=True)
class Recommendations:
    """Rows of one batch of users.

    Args:
        position: which of the users that were asked about each row is for, from 0.
        item: number of the item.
        score: the model's, or for the fallback the number of training users of the item.
        rank: from 1.
        known: False where the user is new and the rows are the fallback's.
        num_users: how many users were asked about in this batch, with rows or without.
        num_new: how many of them are new.

    """

    position: Tensor
    item: Tensor
    score: Tensor
    rank: Tensor
    known: Tensor
    num_users: int
    num_new: int


def recommend(
    folder: ModelFolder,
    users: Sequence[Any] | Any | None,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    allow: Sequence[Any] | Any | None = None,
    deny: Sequence[Any] | Any | None = None,
    fallback: str = "popular",
) -> Iterator[Recommendations]:
    """The k best items for each user, batch by batch in bounded memory; fewer where fewer are left.

    Arguments are checked at the call, before the first batch.

    Args:
        folder: of a recommendation task.
        users: original ids, a sequence, an array or a column of pandas or polars, in any order; one may occur twice.
            None for all known users, in the order of their numbers.
        k: how many items per user.
        exclude_seen: leave out the user's seen items, of any split of the data.
        allow: original ids of the only items that may be recommended; None for all.
        deny: original ids of items that may not.
        fallback: for new users: ``"popular"``, the items with most training users; ``"none"``, no rows; ``"error"``.

    Equal scores are ordered by the number of the item, on any device and in any batch.

    """
    k = check_k(k)
    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {shown(fallback)}; expected one of {', '.join(map(repr, FALLBACKS))}")
    folder.need("recommendation")
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    assert folder.item_counts is not None
    if users is None:
        number = torch.arange(len(folder.query_ids))
    else:
        number = folder.query_ids.find(users := ids_in_order("users", users))
    if fallback == "error" and bool((number < 0).any()):
        unknown = id_at(users, int((number < 0).nonzero()[0]))
        raise UserError(
            f"user {shown(unknown)} was never seen in training; expected known users only, or fallback popular or none"
        )
    barred, popular = _barred(folder.item_ids, allow, deny), None
    if fallback == "popular":
        order = torch.argsort(folder.item_counts, descending=True, stable=True)
        order = order[~barred[order]][:k]
        popular = order, folder.item_counts[order].float()
    return _batches(folder, number, folder.queries, k, barred, folder.seen if exclude_seen else None, popular)


def recommend_after(
    folder: ModelFolder,
    histories: CSR,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    met: CSR | None = None,
    allow: Sequence[Any] | Any | None = None,
    deny: Sequence[Any] | Any | None = None,
) -> Iterator[Recommendations]:
    """The k best items after each of these histories, of known or new users; batch by batch, as in :func:`recommend`.

    The model answers an empty history too.

    Args:
        folder: of a model that reads histories.
        histories: item numbers, oldest first; see :func:`songrank.data.histories.table_histories`.
        k: how many items per history.
        exclude_seen: leave out seen items.
        met: the seen items of each history, if they are more than the history itself.
        allow: original ids of the only items that may be recommended; None for all.
        deny: original ids of items that may not.

    """
    k = check_k(k)
    need_histories(folder)
    assert folder.item_ids is not None
    number, barred = torch.arange(len(histories)), _barred(folder.item_ids, allow, deny)
    seen = None if not exclude_seen else histories if met is None else met
    return _batches(folder, number, lambda rows: folder.history_input(histories, rows), k, barred, seen)


def need_histories(folder: ModelFolder) -> None:
    """Raise unless the model reads histories."""
    folder.need("recommendation")
    if folder.histories is None:
        name = folder.info["model"]["name"]
        fix = "train with model=sequence or model=history, or ask for users that it knows"
        raise DataError(f"holds {name}, which knows users by their ids alone", fix, file=str(folder.path))


def score_users(folder: ModelFolder, user: Tensor) -> Tensor:
    """[B, N]: scores of all items for these known users, computed in bounded memory."""
    assert folder.item_ids is not None
    step = queries_at_once(folder, len(folder.item_ids))
    with torch.no_grad():
        parts = [folder.model.score_all(folder.queries(part)).float() for part in torch.split(user, step)]  # type: ignore[operator]
        return torch.cat(parts)


def column_names(user: str, item: str) -> tuple[str, str]:
    """Column names of users and items in a table of recommendations, none of which may occur twice.

    >>> column_names("visitor", "sku"), column_names("visitor", "score")
    (('visitor', 'sku'), ('user', 'item'))
    """
    return ("user", "item") if {user, item} & {"score", "rank", "source"} or user == item else (user, item)


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


def _barred(items: Ids, allow: Any, deny: Any) -> Tensor:
    """[N]: which items may not be recommended to any user, by original ids."""
    barred = torch.zeros(len(items), dtype=torch.bool)
    if allow is not None:
        allowed = items.find(allow)
        if not bool((allowed >= 0).any()):
            raise UserError("allow names no item that the model knows; nothing could be recommended")
        barred[:] = True
        barred[allowed[allowed >= 0]] = False
    if deny is not None:
        denied = items.find(deny)
        barred[denied[denied >= 0]] = True
    if bool(barred.all()):
        raise UserError("allow and deny leave no item; nothing could be recommended")
    return barred


def _batches(
    folder: ModelFolder,
    number: Tensor,
    inputs: Callable[[Tensor], Tensor],
    k: int,
    barred: Tensor,
    seen: CSR | None,
    popular: tuple[Tensor, Tensor] | None = None,
) -> Iterator[Recommendations]:
    """The k best items for each row ``number`` of what ``inputs`` and ``seen`` hold; ``popular`` where it is −1."""
    step = queries_at_once(folder, barred.shape[0])
    for first in range(0, number.shape[0], step):
        part = number[first : first + step]
        known = (part >= 0).nonzero().squeeze(-1)
        nothing = torch.zeros(0, dtype=torch.int64)
        parts = [(nothing, nothing, torch.zeros(0), nothing > 0)]
        if known.numel():
            with torch.no_grad():
                scores: Tensor = folder.model.score_all(inputs(part[known])).float()  # type: ignore[operator]
            scores[:, barred.to(scores.device)] = -torch.inf
            if seen is not None:
                owner, at = seen.entries(part[known])
                scores[owner.to(scores.device), seen["item"][at].long().to(scores.device)] = -torch.inf
            value, item = top(scores, min(scores.shape[1], k))
            left = value > -torch.inf
            row = known.unsqueeze(1).expand(-1, value.shape[1])[left]
            parts.append((row, item[left], value[left], torch.ones_like(row) > 0))
        new = (part < 0).nonzero().squeeze(-1)
        if popular is not None and new.numel():
            item, score = popular
            row = new.repeat_interleave(item.shape[0])
            parts.append((row, item.repeat(new.numel()), score.repeat(new.numel()), torch.zeros_like(row) > 0))
        row, item, score, by_model = (torch.cat(columns) for columns in zip(*parts, strict=True))
        row, order = torch.sort(row, stable=True)
        rank = torch.arange(row.shape[0]) - torch.searchsorted(row, row) + 1  # from where each user's rows begin
        yield Recommendations(
            row + first, item[order], score[order], rank, by_model[order], part.shape[0], new.shape[0]
        )


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
