"""From one training to the next on more data: weights and memory go with their users, items and pairs."""

from collections.abc import Mapping
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
    """What a training on interactions leaves for the next, by original ids, since numbers change when ids are added.

    Args:
        query_ids: of users.
        item_ids: of items.
        weights: of the model, whose capabilities say which have a row per user or per item; all else is shared.
        pairs: user · items + item of each row of the memory: of the pairs of training, ascending, or where the model
            reads histories, of their entries, as they stand.
        loss: name of the class of the loss that remembers.
        memory: its tables, one number a pair or a user (or an entry), NaN where there is none.
    """

    query_ids: Ids
    item_ids: Ids
    weights: Mapping[str, Tensor]
    pairs: Tensor
    loss: str
    memory: Mapping[str, Tensor]

    @classmethod
    def of(cls, trainer: Trainer, dataset: Dataset) -> Self:
        """The past of a training that has ended."""
        loss = trainer.stages[-1].loss
        memory = {}
        if isinstance(loss, MemoryLoss) and _catalogue(trainer).one_row_per_key:
            memory = {name: loss.table(name).read().cpu() for name in loss.by_pair + loss.by_query}
        weights = {name: tensor.detach().cpu().clone() for name, tensor in trainer.model.state_dict().items()}
        pairs = _catalogue(trainer).memory_keys()
        return cls(dataset.query_ids, dataset.item_ids, weights, pairs, type(loss).__name__, memory)

    def carry_over(self, trainer: Trainer, dataset: Dataset) -> None:
        """Put weights and memory where they belong in a training that is about to begin; what is new stays as it is.

        The memory goes only into a loss of the same class.
        """
        users = dataset.query_ids.find(list(self.query_ids))
        items = dataset.item_ids.find(list(self.item_ids))
        able, state = capabilities_of(trainer.model), trainer.model.state_dict()
        self._check(state, {*able.query_tables, *able.item_tables})
        with torch.no_grad():
            for name, old in self.weights.items():
                if name in able.query_tables:
                    _put_rows(state[name], users, old)
                elif name in able.item_tables:
                    _put_rows(state[name], items, old)
                else:
                    state[name].copy_(old)
        loss = trainer.stages[-1].loss
        if not isinstance(loss, MemoryLoss) or type(loss).__name__ != self.loss or not self.memory:
            return
        adapter = _catalogue(trainer)
        if not adapter.one_row_per_key:
            return
        query, item = unpack(self.pairs, len(self.item_ids))
        user, item = users[query], items[item]
        key = torch.where((user >= 0) & (item >= 0), pack(user, item, dataset.num_items), -1)
        row = _places(key, adapter.memory_keys())
        by_query = row if adapter.entry_queries else users
        for names, rows in ((loss.by_pair, row), (loss.by_query, by_query)):
            for name in names:
                values = self.memory[name]
                kept = (rows >= 0) & values.isfinite()
                loss.table(name).write(rows[kept], values[kept])

    def _check(self, state: Mapping[str, Tensor], tables: set[str]) -> None:
        """Raise if these are not the weights of a model that was built alike, but for the number of users and items."""

        def shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
            return {name: weight.shape[1:] if name in tables else weight.shape for name, weight in weights.items()}

        if shapes(state) != shapes(self.weights):
            raise UserError("the model has other sizes or parts than the one that was fitted; fit anew to change it")


def _catalogue(trainer: Trainer) -> CatalogueAdapter:
    assert isinstance(trainer.adapter, CatalogueAdapter)  # lists have no ids that could be added
    return trainer.adapter


def _places(old: Tensor, new: Tensor) -> Tensor:
    """Where each of the old keys stands among the new ones, −1 where it does not; the second of equal ones second.

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


def _put_rows(table: Tensor, rows: Tensor, values: Tensor) -> None:
    kept = rows >= 0
    table[rows[kept].to(table.device)] = values[kept].to(table.device)
