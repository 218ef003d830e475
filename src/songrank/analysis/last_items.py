"""How much a model of histories gains from the last item of each history.

On validation, models of user ids and of histories know the same items: those of training. Later a model of histories
reads more, such as the validation item when it is tested; a model of user ids does not, until it is trained again. The
loss without the last item estimates this advantage from training and validation data alone.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from songrank.data import Dataset
from songrank.metrics.catalogue import metric_values, some_queries
from songrank.models.model_folder import ModelFolder
from songrank.training.build import policies
from songrank.training.config.recipe import Recipe
from songrank.training.trainer.history_adapters import HistoryAdapter, make_adapter

QUERIES = 10_000
"""Maximum number of validation queries to measure on."""


def without_last(history: Tensor) -> Tensor:
    """Histories [B, T], padded with −1 at the end, without the last item of each.

    >>> without_last(torch.tensor([[4, 2, 7], [3, -1, -1], [-1, -1, -1]]))
    tensor([[ 4,  2, -1],
            [-1, -1, -1],
            [-1, -1, -1]])
    """
    last = torch.nn.functional.pad(history[:, 1:], (0, 1), value=-1) < 0
    return torch.where(last, -1, history)


def gain_of_last_items(folder: ModelFolder, dataset: Dataset, recipe: Recipe) -> float:
    """The validation metric of a model of histories, minus its value without the last items; at least 0."""
    adapter = make_adapter(dataset, folder.device, folder.model)
    assert isinstance(adapter, HistoryAdapter)
    targets = some_queries(adapter.targets("validation"), QUERIES)

    def scorings(query: Tensor) -> Iterator[Tensor]:
        history = adapter.queries("validation", query)
        return (folder.model.score_all(read) for read in (history, without_last(history)))  # type: ignore[operator]

    options = {name: value for name, value in policies(recipe).items() if name != "empty"}
    whole, shortened = metric_values(scorings, targets, recipe.validation.metric, **options).mean(1).tolist()
    return max(0.0, float(whole) - float(shortened))
