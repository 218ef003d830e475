"""Held-out interactions as the relevance of an evaluation."""

import torch
from torch import Tensor

from songrank.core.errors import DataError
from songrank.core.relevance import Relevance
from songrank.models.model_folder import ModelFolder
from songrank.serving.recommendations import known_ids


def held_out_relevance(folder: ModelFolder, user: Tensor, item: Tensor, label: Tensor) -> tuple[Tensor, Relevance]:
    """The known users of these pairs of numbers (−1: new), and their relevance without the users' other seen items.

    The largest label of a repeated pair counts.
    """
    assert folder.seen is not None
    known, items = (user >= 0) & (item >= 0), len(known_ids(folder)[1])
    if not bool(known.any()):
        raise DataError("no row has a user and an item that were seen in fitting", "evaluate on other rows")
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
