"""From one training to the next on more data: weights and memory go with their users, items and pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from songrank.core.errors import UserError
from songrank.core.ids import Ids
from songrank.data import CatalogueSplit, Dataset
from songrank.losses.base import MemoryLoss
from songrank.training.trainer.batch_adapters import SequenceFeed
from songrank.training.trainer.loop import Trainer


@dataclass(frozen=True)
class Past:
    """What a training on interactions leaves for the next, by original ids, since numbers change when ids are added.

    Args:
        query_ids: of users.
        item_ids: of items.
        weights: of the model. Tables with a row a user are called ``query…``, those with a row an item ``item…`` or
            ``bias``; all else is shared.
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
        if isinstance(loss, MemoryLoss) and not _remembers_more(trainer):
            memory = {name: loss.table(name).read().cpu() for name in loss.by_pair + loss.by_query}
        weights = {name: tensor.detach().cpu().clone() for name, tensor in trainer.model.state_dict().items()}
        pairs = _pairs(trainer, dataset)
        return cls(dataset.query_ids, dataset.item_ids, weights, pairs, type(loss).__name__, memory)

    def carry_over(self, trainer: Trainer, dataset: Dataset) -> None:
        """Put weights and memory where they belong in a training that is about to begin; what is new stays as it is.

        The memory goes only into a loss of the same class.
        """
        users = dataset.query_ids.find(list(self.query_ids))
        items = dataset.item_ids.find(list(self.item_ids))
        state = trainer.model.state_dict()
        self._check(state)
        with torch.no_grad():
            for name, old in self.weights.items():
                if name.startswith("query") and old.shape[0] == users.shape[0]:
                    _put_rows(state[name], users, old)
                elif (name.startswith("item") or name == "bias") and old.shape[0] == items.shape[0]:
                    _put_rows(state[name], items, old)
                else:
                    state[name].copy_(old)
        loss = trainer.stages[-1].loss
        if not isinstance(loss, MemoryLoss) or type(loss).__name__ != self.loss or not self.memory:
            return
        if _remembers_more(trainer):
            return
        user, item = users[self.pairs // len(self.item_ids)], items[self.pairs % len(self.item_ids)]
        key = torch.where((user >= 0) & (item >= 0), user * dataset.num_items + item, -1)
        row = _places(key, _pairs(trainer, dataset))
        by_query = row if isinstance(trainer.feed, SequenceFeed) else users
        for names, rows in ((loss.by_pair, row), (loss.by_query, by_query)):
            for name in names:
                values = self.memory[name]
                kept = (rows >= 0) & values.isfinite()
                loss.table(name).write(rows[kept], values[kept])

    def _check(self, state: Mapping[str, Tensor]) -> None:
        """Raise if these are not the weights of a model that was built alike, but for the number of users and items."""
        tables = ("query", "item", "bias")

        def shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
            return {name: w.shape[1:] if name.startswith(tables) else w.shape for name, w in weights.items()}

        if shapes(state) != shapes(self.weights):
            raise UserError("the model has other sizes or parts than the one that was fitted; fit anew to change it")


def _remembers_more(trainer: Trainer) -> bool:
    """Whether an entry of a history has several rows of memory; these start anew."""
    return isinstance(trainer.feed, SequenceFeed) and trainer.feed.following > 1


def _pairs(trainer: Trainer, dataset: Dataset) -> Tensor:
    """User · items + item of each row of a loss's memory."""
    part = dataset["train"]
    assert isinstance(part, CatalogueSplit)
    return part.keys() if isinstance(trainer.feed, SequenceFeed) else part.unique_keys()[0]


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
