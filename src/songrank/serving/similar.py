"""Similar items and similar users of a trained model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from songrank.core.errors import DataError, UserError, shown
from songrank.data.adapters.frames import id_at, ids_in_order
from songrank.models.model_folder import ModelFolder
from songrank.serving.recommendations import Recommendations, check_count, known_ids, queries_at_once, top


def similar_items(folder: ModelFolder, items: Sequence[Any] | Any | None, k: int = 10) -> Iterator[Recommendations]:
    """The k most similar items of each item, in batches with bounded memory; the item itself is left out.

    Models with item vectors compare them by cosine; EASE has the weight of an item for a history of the other; a blend
    adds the standardised similarities of its members. Arguments are validated immediately; ties are broken by index.

    Args:
        folder: model folder of a recommendation task.
        items: original ids as a sequence, array or column; None for all items, by index.
        k: items per item.
    """
    k, (_, item_ids) = check_count("k", k), known_ids(folder)
    number = _numbers("item", item_ids, items)
    with torch.no_grad():
        try:
            folder.model.item_similarity(number[:0].to(folder.device))
        except NotImplementedError as error:
            raise DataError(str(error), "train another model", file=str(folder.path)) from None
    return _nearest(folder, number, len(item_ids), k, lambda part: folder.model.item_similarity(part.to(folder.device)))


def similar_users(folder: ModelFolder, users: Sequence[Any] | Any | None, k: int = 10) -> Iterator[Recommendations]:
    """The k most similar users of each known user, by the cosine of their vectors, for dot-product models.

    Args:
        folder: model folder of a recommendation task.
        users: original ids as a sequence, array or column; None for all users, by index.
        k: users per user.
    """
    k, (query_ids, _) = check_count("k", k), known_ids(folder)
    if not folder.model.capabilities.dot_product:
        what = f"contains {folder.info['model']['name']}, which has no vectors of users"
        fix = "train matrix-factorisation, two-tower, lightgcn, sequence or history"
        raise DataError(what, fix, file=str(folder.path))
    number, parts = _numbers("user", query_ids, users), torch.arange(len(query_ids))
    with torch.no_grad():
        rows = [
            torch.nn.functional.normalize(folder.model.query_vectors(folder.queries(part)).float(), dim=1)  # type: ignore[operator]
            for part in torch.split(parts, queries_at_once(folder, 2**8))
        ]
    unit = torch.cat(rows)
    return _nearest(folder, number, len(query_ids), k, lambda part: unit[part.to(unit.device)] @ unit.T)


def _numbers(word: str, known: Any, ids: Any) -> Tensor:
    """Indices of the given ids; raises for unknown ones."""
    if ids is None:
        return torch.arange(len(known))
    asked = ids_in_order(f"{word}s", ids)
    number: Tensor = known.find(asked)
    if bool((number < 0).any()):
        unknown = id_at(asked, int((number < 0).nonzero()[0]))
        raise UserError(f"unknown {word} {shown(unknown)}; expected {word}s of the training data")
    return number


def _nearest(
    folder: ModelFolder, number: Tensor, count: int, k: int, similarity: Callable[[Tensor], Tensor]
) -> Iterator[Recommendations]:
    """The k best of each row of similarities, without the row's own index."""
    wide = min(k, count - 1)
    for first, part in _blocks(number, queries_at_once(folder, count)):
        with torch.no_grad():
            scores = similarity(part).float()
        row = torch.arange(len(part))
        scores[row.to(scores.device), part.to(scores.device)] = -torch.inf
        value, item = top(scores, wide) if wide else (scores[:, :0].cpu(), torch.zeros(len(part), 0, dtype=torch.int64))
        position = (row + first).repeat_interleave(wide)
        rank = torch.arange(1, wide + 1).repeat(len(part))
        known = torch.ones(len(position), dtype=torch.bool)
        yield Recommendations(position, item.flatten(), value.flatten(), rank, known, len(part), 0)


def _blocks(number: Tensor, step: int) -> Iterator[tuple[int, Tensor]]:
    return ((first, number[first : first + step]) for first in range(0, len(number), step))
