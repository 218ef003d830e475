"""Warm start: continue training on more data, with weights and memory matched by user, item and pair."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from songrank.core.errors import UserError
from songrank.core.ids import Ids
from songrank.core.pairs import pack, unpack
from songrank.data import Dataset
from songrank.losses.base import MemoryLoss
from songrank.models.base import capabilities_of
from songrank.training.trainer.batch_adapters import CatalogueAdapter
from songrank.training.trainer.loop import Trainer


@dataclass(frozen=True)
class WarmStart:
    """The result of a training by original ids, since indices change when ids are added.

    ``pairs`` has user · items + item of each memory row: the training pairs, ascending, or the entries of histories in
    order. ``memory`` has the tables of the loss, one number per pair, user or history entry; NaN for none.
    """

    query_ids: Ids
    item_ids: Ids
    weights: Mapping[str, Tensor]
    pairs: Tensor
    loss: str
    memory: Mapping[str, Tensor]

    @classmethod
    def of(cls, trainer: Trainer, dataset: Dataset) -> Self:
        """The result of a finished training."""
        loss = trainer.stages[-1].loss if trainer.stages else None  # none of a model fitted in closed form
        memory = {}
        if isinstance(loss, MemoryLoss) and _catalogue(trainer).one_row_per_key:
            memory = {name: loss.table(name).read().cpu() for name in loss.by_pair + loss.by_query}
        weights = {name: tensor.detach().cpu().clone() for name, tensor in trainer.model.state_dict().items()}
        pairs = _catalogue(trainer).memory_keys()
        return cls(dataset.query_ids, dataset.item_ids, weights, pairs, type(loss).__name__, memory)

    def carry_over(self, trainer: Trainer, dataset: Dataset) -> None:
        """Copy weights, and memory of the same loss class, to a new trainer; new users and items keep their own."""
        users = dataset.query_ids.find(list(self.query_ids))
        items = dataset.item_ids.find(list(self.item_ids))
        able = capabilities_of(trainer.model)
        state, weights = (_without(some, able.graph) for some in (trainer.model.state_dict(), self.weights))
        rows = {**dict.fromkeys(able.query_tables, users), **dict.fromkeys(able.item_tables, items)}
        if _shapes(state, rows) != _shapes(weights, rows):
            what = "the model has different layers or sizes from the fitted one"
            raise UserError(f"{what}; call fit to train a new model")
        with torch.no_grad():
            for name, old in weights.items():
                if name in rows:
                    kept, device = rows[name] >= 0, state[name].device
                    state[name][rows[name][kept].to(device)] = old[kept].to(device)
                else:
                    state[name].copy_(old)
        loss, adapter = trainer.stages[-1].loss, _catalogue(trainer)
        same = type(loss).__name__ == self.loss and adapter.one_row_per_key
        if not isinstance(loss, MemoryLoss) or not same or self.memory.keys() != {*loss.by_pair, *loss.by_query}:
            return
        query, item = unpack(self.pairs, len(self.item_ids))
        user, item = users[query], items[item]
        key = torch.where((user >= 0) & (item >= 0), pack(user, item, dataset.num_items), -1)
        row = _places(key, adapter.memory_keys())
        by_query = row if adapter.entry_queries else users
        for names, places in ((loss.by_pair, row), (loss.by_query, by_query)):
            for name in names:
                values = self.memory[name]
                kept = (places >= 0) & values.isfinite()
                loss.table(name).write(places[kept], values[kept])


def _without(weights: Mapping[str, Tensor], names: Collection[str]) -> dict[str, Tensor]:
    return {name: weight for name, weight in weights.items() if name not in names}


def _shapes(weights: Mapping[str, Tensor], tables: Collection[str]) -> dict[str, tuple[int, ...]]:
    return {name: weight.shape[1:] if name in tables else weight.shape for name, weight in weights.items()}


def _catalogue(trainer: Trainer) -> CatalogueAdapter:
    assert isinstance(trainer.adapter, CatalogueAdapter)  # document lists have no ids
    return trainer.adapter


def _places(old: Tensor, new: Tensor) -> Tensor:
    """The position of each old key among the new ones, −1 if missing; the n-th of equal keys maps to the n-th.

    >>> _places(torch.tensor([7, 3, 7, 5]), torch.tensor([7, 4, 3, 7, 7])).tolist()
    [0, 2, 3, -1]
    """

    def ordered(keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        key, order = keys.sort(stable=True)
        return key, torch.arange(key.shape[0]) - torch.searchsorted(key, key), order

    (key, nth, order), (known, _, place) = ordered(old), ordered(new)
    at = torch.searchsorted(known, key) + nth
    inside = at.clamp(max=max(known.shape[0] - 1, 0))
    found = torch.full_like(old, -1)
    found[order] = torch.where((at == inside) & (known[inside] == key), place[inside], -1)
    return found
