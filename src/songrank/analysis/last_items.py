"""The validation metric of a model with and without the last item of each history.

On validation, models of user ids and of histories know the same items: those of training. Later a model of histories
reads more, such as the validation item when it is tested; a model of user ids does not, until it is trained again. What
one item less does to a blend says what one item more will do: with values v of whole and w of shortened histories,
v + (v − w) extrapolates to histories with a new item, from training and validation data alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.data import Dataset
from songrank.metrics.catalogue import metric_values, some_queries
from songrank.models.blend import UserInput
from songrank.models.model_folder import ModelFolder
from songrank.training.build import policies
from songrank.training.config.recipe import Recipe
from songrank.training.trainer.batch_adapters import CatalogueAdapter
from songrank.training.trainer.history_adapters import HistoryAdapter, make_adapter

QUERIES = 10_000
"""Maximum number of validation queries to measure on."""


def with_new_items(folder: ModelFolder, dataset: Dataset, recipe: Recipe) -> Tensor:
    """Values [n] of the validation metric of a model, extrapolated to histories with a new item.

    Queries are those with a target, at most 10,000, the same ones for each model. A model of user ids does not change.
    """
    adapter = make_adapter(dataset, folder.device, folder.model)
    assert isinstance(adapter, CatalogueAdapter)
    targets = some_queries(adapter.targets("validation"), QUERIES)
    models: list[Any] = [folder.model]
    if isinstance(adapter, HistoryAdapter):
        models.append(_WithoutLast(folder.model))
    scorers = [adapter.scorer(model, "validation") for model in models]
    options = {name: value for name, value in policies(recipe).items() if name != "empty"}

    def scorings(query: Tensor) -> Iterator[Tensor]:
        return (scorer(query) for scorer in scorers)

    values = metric_values(scorings, targets, recipe.validation.metric, **options)
    return 2 * values[0] - values[-1]


@dataclass(frozen=True)
class _WithoutLast:
    """A model that does not read the last item of each history."""

    model: Any

    def score_all(self, query: Any) -> Tensor:
        scores: Tensor = self.model.score_all(without_last(query))
        return scores


def without_last(query: Any) -> Any:
    """The query of a model with histories [B, T], padded with −1 at the end, without the last item of each.

    >>> without_last(torch.tensor([[4, 2, 7], [3, -1, -1], [-1, -1, -1]]))
    tensor([[ 4,  2, -1],
            [-1, -1, -1],
            [-1, -1, -1]])
    """
    if isinstance(query, UserInput):
        return UserInput(query.id, without_last(query.history))
    if isinstance(query, tuple):  # with times
        return (without_last(query[0]), *query[1:])
    last = torch.nn.functional.pad(query[:, 1:], (0, 1), value=-1) < 0
    return torch.where(last, -1, query)
