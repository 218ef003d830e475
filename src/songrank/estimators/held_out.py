"""Interactions that a model has not been fitted on, as what its ranking is measured by."""

import torch
from torch import Tensor

from songrank.core.errors import DataError
from songrank.core.relevance import Relevance
from songrank.models.model_folder import ModelFolder


def held_out_relevance(folder: ModelFolder, user: Tensor, item: Tensor, label: Tensor) -> tuple[Tensor, Relevance]:
    """The users of these pairs, and for each the pairs among all items less what the user met otherwise.

    Of repeated pairs the largest label counts.

    Args:
        folder: of a recommendation task.
        user: numbers, −1 where one was never seen: such rows are left out.
        item: numbers, −1 alike.
        label: relevance, at least 0.

    """
    assert folder.seen is not None
    assert folder.item_counts is not None
    known = (user >= 0) & (item >= 0)
    if not bool(known.any()):
        raise DataError("no row has a user and an item that were seen in fitting", "evaluate on other rows")
    items = folder.item_counts.shape[0]
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
