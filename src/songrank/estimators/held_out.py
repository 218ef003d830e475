"""Interactions that a model has not been fitted on, as what its ranking is measured by."""

import torch
from torch import Tensor

from songrank.data.errors import DataError
from songrank.inference.model_folder import ModelFolder
from songrank.relevance import Relevance


def held_out_relevance(folder: ModelFolder, user: Tensor, item: Tensor, label: Tensor) -> Relevance:
    """These pairs among all items less what their users met otherwise; of repeated pairs the largest label.

    Args:
        folder: of a recommendation task.
        user: numbers, −1 where one was never seen: such rows are left out.
        item: numbers, −1 alike.
        label: relevance.

    """
    assert folder.seen is not None
    known = (user >= 0) & (item >= 0)
    if not bool(known.any()):
        raise DataError("no row has a user and an item that were seen in fitting", "evaluate on other rows")
    offsets, items = folder.seen["offsets"], folder.seen["count"].shape[0]
    users = offsets.shape[0] - 1
    key = user[known] * items + item[known]
    target, place = torch.unique(key, return_inverse=True)
    best = torch.zeros(target.shape[0]).scatter_reduce_(0, place, label[known].float(), "amax")
    met = torch.repeat_interleave(torch.arange(users), offsets.diff()) * items + folder.seen["item"].long()
    met = met[~torch.isin(met, target)]
    return Relevance.from_pairs(
        target // items, target % items, best, users, items, exclude=(met // items, met % items)
    ).to(folder.device)
