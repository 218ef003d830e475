"""Top-k recommendations of unseen items, by user or history, with a fallback for new users."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from songrank.core.checks import check_int
from songrank.core.csr import CSR
from songrank.core.errors import DataError, UserError, shown
from songrank.core.ids import Ids
from songrank.core.processes import ALONE, Processes
from songrank.core.relevance import Relevance
from songrank.data.adapters.frames import id_at, ids_in_order
from songrank.models.base import capabilities_of
from songrank.models.model_folder import ModelFolder

FALLBACKS = ("popular", "none", "error")
_SCORES = {"cpu": 2**24, "cuda": 2**28}  # maximum number of scores per batch
_SCORES_IN_CACHE = 2**21  # on a CPU, of a product with the item vectors
_BLOCK = 16  # scores of which a CPU compares the largest first
_BYTES = {"cpu": 2**28, "cuda": 2**32}  # maximum memory of the model per batch


@dataclass(frozen=True)
class Recommendations:
    """Recommendations for one batch of users."""

    position: Tensor  # index of the user among all requested users
    item: Tensor  # index of the item
    score: Tensor  # score of the model; for the fallback the number of training users of the item
    rank: Tensor  # from 1
    known: Tensor  # False for rows of the fallback, for new users
    num_users: int  # users in this batch, with or without rows
    num_new: int  # new users among them


def recommend(
    folder: ModelFolder,
    users: Sequence[Any] | Any | None,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    allow: Sequence[Any] | Any | None = None,
    deny: Sequence[Any] | Any | None = None,
    fallback: str = "popular",
    processes: Processes = ALONE,
) -> Iterator[Recommendations]:
    """The k best items for each user, in batches with bounded memory; fewer if there are not enough items.

    Arguments are validated immediately. Ties are broken by item index, on any device.

    Args:
        folder: model folder of a recommendation task.
        users: original ids as a sequence, array or column; None for all known users, by index.
        k: items per user.
        exclude_seen: exclude the user's seen items in all splits.
        allow: original ids of items that may be recommended; None for all.
        deny: original ids of items that must not be recommended.
        fallback: for new users: ``"popular"``, items with most training users; ``"none"``, no rows; or ``"error"``.
        processes: several processes share the batches: each has a range of the batches of one process.
    """
    k = check_count("k", k)
    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {shown(fallback)}; expected one of {', '.join(map(repr, FALLBACKS))}")
    query_ids, item_ids = known_ids(folder)
    users = None if users is None else ids_in_order("users", users)
    number = torch.arange(len(query_ids)) if users is None else query_ids.find(users)
    if fallback == "error" and bool((number < 0).any()):
        unknown = id_at(users, int((number < 0).nonzero()[0]))
        raise UserError(f"unknown user {shown(unknown)}; expected known users, or fallback popular or none")
    barred, popular = _barred(item_ids, allow, deny), None
    if fallback == "popular":
        assert folder.item_counts is not None
        order = torch.argsort(folder.item_counts, descending=True, stable=True)
        order = order[~barred[order]][:k]
        popular = order, folder.item_counts[order].float()
    seen = folder.seen if exclude_seen else None
    return _batches(folder, number, folder.queries, k, barred, seen, popular, processes)


def recommend_after(
    folder: ModelFolder,
    histories: CSR,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    met: CSR | None = None,
    allow: Sequence[Any] | Any | None = None,
    deny: Sequence[Any] | Any | None = None,
    processes: Processes = ALONE,
) -> Iterator[Recommendations]:
    """Like :func:`recommend`, for histories of known or new users, which may be empty.

    A blend is used without its members that read ids; the weights of the others are divided by their sum.

    Args:
        folder: model folder of a model of histories.
        histories: item indices, oldest first; see :func:`songrank.data.histories.table_histories`.
        k: items per history.
        exclude_seen: exclude seen items.
        met: seen items of each history, if different from the history.
        allow: original ids of items that may be recommended; None for all.
        deny: original ids of items that must not be recommended.
        processes: several processes share the batches, as in :func:`recommend`.
    """
    k = check_count("k", k)
    barred, number = _barred(history_item_ids(folder), allow, deny), torch.arange(len(histories))
    seen, part = None if not exclude_seen else histories if met is None else met, folder.of_histories()
    assert part is not None
    inputs = partial(part.history_input, histories)
    return _batches(part, number, inputs, k, barred, seen, None, processes)


def known_ids(folder: ModelFolder) -> tuple[Ids, Ids]:
    """Original ids of users and items of a recommendation model."""
    folder.need("recommendation")
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    return folder.query_ids, folder.item_ids


def queries_at_once(folder: ModelFolder, scores: int) -> int:
    """Batch size in users, for this number of scores per user and bounded memory."""
    kind = folder.device.type
    room = _BYTES.get(kind, 2**28) // max(1, folder.model.query_bytes)
    return max(1, min(_SCORES.get(kind, 2**26) // scores, room))


def history_item_ids(folder: ModelFolder) -> Ids:
    """Original item ids of a model of histories."""
    item_ids = known_ids(folder)[1]
    if folder.of_histories() is None:
        name = folder.info["model"]["name"]
        fix = "train with model=sequence or model=history, or request known users"
        raise DataError(f"contains {name}, which does not read histories", fix, file=str(folder.path))
    return item_ids


def score_users(folder: ModelFolder, user: Tensor) -> Tensor:
    """[B, N]: scores of all items for known users, in bounded memory."""
    step = queries_at_once(folder, len(known_ids(folder)[1]))
    with torch.no_grad():
        parts = [folder.model.score_all(folder.queries(part)).float() for part in torch.split(user, step)]  # type: ignore[operator]
        return torch.cat(parts)


def score_pairs(folder: ModelFolder, user: Tensor, item: Tensor) -> Tensor:
    """The score of each pair of indices, NaN where one of them is −1, in bounded memory."""
    scores = torch.full(user.shape, torch.nan)
    known = ((user >= 0) & (item >= 0)).nonzero().squeeze(-1)
    with torch.no_grad():
        for rows in torch.split(known, queries_at_once(folder, 2**8)):
            found = folder.model(folder.queries(user[rows]), item[rows].unsqueeze(1).to(folder.device))
            scores[rows] = found.squeeze(1).float().cpu()
    return scores


def held_out_relevance(folder: ModelFolder, user: Tensor, item: Tensor, label: Tensor) -> tuple[Tensor, Relevance]:
    """The known users of pairs of indices (−1: new), and their relevance, excluding other seen items of the users.

    Repeated pairs have their largest label.
    """
    assert folder.seen is not None
    known, items = (user >= 0) & (item >= 0), len(known_ids(folder)[1])
    if not bool(known.any()):
        fix = "hold out rows of known users, in cross-validation with cv=KFold(shuffle=True)"
        raise DataError("no row has a known user and a known item", fix)
    users, row = torch.unique(user[known], return_inverse=True)
    target, place = torch.unique(row * items + item[known], return_inverse=True)
    best = torch.zeros(target.shape[0]).scatter_reduce_(0, place, label[known].float(), "amax")
    owner, at = folder.seen.entries(users)
    met = owner * items + folder.seen["item"][at].long()
    met = met[~torch.isin(met, target)]
    target, best = target[best > 0], best[best > 0]
    relevance = Relevance.from_pairs(
        target // items, target % items, best, users.shape[0], items, exclude=(met // items, met % items)
    )
    return users.to(folder.device), relevance.to(folder.device)


def column_names(user: str, item: str) -> tuple[str, str]:
    """Names of the user and item columns in a table of recommendations, without duplicates.

    >>> column_names("visitor", "sku"), column_names("visitor", "score")
    (('visitor', 'sku'), ('user', 'item'))
    """
    return ("user", "item") if {user, item} & {"score", "rank", "source"} or user == item else (user, item)


def check_count(name: str, value: Any) -> int:
    """Validate a whole number of at least 1."""
    try:
        return check_int(name, value)
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from None


def _barred(items: Ids, allow: Any, deny: Any) -> Tensor:
    """[N]: mask of items that must not be recommended."""
    barred = torch.zeros(len(items), dtype=torch.bool)
    if allow is not None:
        allowed = items.find(allow)
        if not bool((allowed >= 0).any()):
            raise UserError("allow has no item known to the model; expected at least one")
        barred[:] = True
        barred[allowed[allowed >= 0]] = False
    if deny is not None:
        denied = items.find(deny)
        barred[denied[denied >= 0]] = True
    if bool(barred.all()):
        raise UserError("allow and deny exclude all items; expected at least one")
    return barred


def _batches(
    folder: ModelFolder,
    number: Tensor,
    inputs: Callable[[Tensor], Any],
    k: int,
    barred: Tensor,
    seen: CSR | None,
    popular: tuple[Tensor, Tensor] | None,
    processes: Processes,
) -> Iterator[Recommendations]:
    """The k best items for each row ``number`` of ``inputs`` and ``seen``; the items ``popular`` where it is −1."""
    step = queries_at_once(folder, barred.shape[0])
    score_parts, excluded = _score_parts(folder), barred if bool(barred.any()) else None
    for first in processes.share(range(0, number.shape[0], step)):
        part = number[first : first + step]
        known, new = (part >= 0).nonzero().squeeze(-1), (part < 0).nonzero().squeeze(-1)
        parts = [(known[:0], known[:0], torch.zeros(0))]
        if known.numel():
            found, done = [], 0
            for scores in score_parts(inputs(part[known])):
                if excluded is not None:
                    scores[:, excluded.to(scores.device)] = -torch.inf
                if seen is not None:
                    owner, at = seen.entries(part[known[done : done + scores.shape[0]]])
                    scores[owner.to(scores.device), seen["item"][at].long().to(scores.device)] = -torch.inf
                found.append(top(scores, min(scores.shape[1], k)))
                done += scores.shape[0]
            value, item = (torch.cat(columns) for columns in zip(*found, strict=True))
            left = value > -torch.inf
            parts.append((known.unsqueeze(1).expand(-1, value.shape[1])[left], item[left], value[left]))
        if popular is not None and new.numel():
            item, score = popular
            parts.append((new.repeat_interleave(len(item)), item.repeat(len(new)), score.repeat(len(new))))
        row, item, score = (torch.cat(columns) for columns in zip(*parts, strict=True))
        row, order = torch.sort(row, stable=True)
        rank = torch.arange(row.shape[0]) - torch.searchsorted(row, row) + 1  # relative to the first row of each user
        yield Recommendations(row + first, item[order], score[order], rank, part[row] >= 0, len(part), len(new))


def _score_parts(folder: ModelFolder) -> Callable[[Any], Iterator[Tensor]]:
    """The function from a batch of queries to their scores of all items, on a CPU in parts that fit its cache."""
    model: Any = folder.model
    if folder.device.type != "cpu" or not capabilities_of(model).dot_product:

        @torch.no_grad()
        def whole(query: Any) -> Iterator[Tensor]:
            yield model.score_all(query).float()

        return whole
    with torch.no_grad():
        items, bias = model.item_vectors(), model.item_bias
    rows = max(1, _SCORES_IN_CACHE // items.shape[0])

    @torch.no_grad()
    def in_parts(query: Any) -> Iterator[Tensor]:
        for vectors in torch.split(model.scaled(model.query_vectors(query)), rows):
            yield F.linear(vectors, items, bias).float()

    return in_parts


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest scores of each row and their positions; ties are broken by position, −∞ is excluded."""
    on_cpu, next_block = scores.device.type == "cpu", None
    if on_cpu and scores.shape[1] >= 8 * _BLOCK * (k + 1):
        value, item, next_block = _top_of_blocks(scores, k)
    else:
        value, item = scores.topk(min(k + 1, scores.shape[1]))
    tied = (value[:, k - 1 : k] == value[:, k:]).any(1)
    if next_block is not None:
        tied |= value[:, k - 1] == next_block
    tied &= value[:, k - 1] > -torch.inf
    value, item = value[:, :k], item[:, :k]
    if bool(tied.any()):  # rare: stable sort of these rows
        ordered, place = torch.sort(scores[tied], dim=1, descending=True, stable=True)
        value[tied], item[tied] = ordered[:, :k], place[:, :k]
    item, order = item.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value.cpu(), item.gather(1, order).cpu()


def _top_of_blocks(scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k + 1 largest scores in the k blocks with the largest maxima, their positions, and the next maximum [B].

    A block has every n-th score, so that maxima are computed along contiguous memory. The k largest scores of a row are
    in these blocks, except for ties with the next maximum.
    """
    blocks = scores.shape[1] // _BLOCK
    table = scores[:, : blocks * _BLOCK].view(scores.shape[0], _BLOCK, blocks)
    most, block = table.amax(1).topk(k + 1)
    place = (torch.arange(_BLOCK).unsqueeze(1) * blocks + block[:, :k].unsqueeze(1)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, scores.shape[1]).expand(scores.shape[0], -1)
    place = torch.cat([place, rest], 1)
    value, at = scores.gather(1, place).topk(k + 1)
    return value, place.gather(1, at), most[:, k]
