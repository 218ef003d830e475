"""Interactions that a model has not been fitted on, as what its ranking is measured by."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from songrank.core.errors import DataError
from songrank.core.relevance import Relevance
from songrank.io.tables.polars_frames import TABLE
from songrank.io.tables.typed_columns import LABEL_EXPECTED, read_column, read_labels
from songrank.serving.model_folder import ModelFolder


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
    known = (user >= 0) & (item >= 0)
    if not bool(known.any()):
        raise DataError("no row has a user and an item that were seen in fitting", "evaluate on other rows")
    offsets, items = folder.seen["offsets"], folder.seen["count"].shape[0]
    users, row = torch.unique(user[known], return_inverse=True)
    target, place = torch.unique(row * items + item[known], return_inverse=True)
    best = torch.zeros(target.shape[0]).scatter_reduce_(0, place, label[known].float(), "amax")
    counts = offsets[users + 1] - offsets[users]
    owner = torch.repeat_interleave(torch.arange(users.shape[0]), counts)
    within = torch.arange(owner.shape[0]) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    met = owner * items + folder.seen["item"][torch.repeat_interleave(offsets[users], counts) + within].long()
    met = met[~torch.isin(met, target)]
    target, best = target[best > 0], best[best > 0]
    relevance = Relevance.from_pairs(
        target // items, target % items, best, users.shape[0], items, exclude=(met // items, met % items)
    )
    return users.to(folder.device), relevance.to(folder.device)


def held_out_labels(frame: pl.DataFrame, options: Mapping[str, Any]) -> Tensor:
    """Labels of a table's rows as preparation would have them with these options."""
    if "label" not in frame.columns:
        return torch.ones(frame.height)
    label = read_column(read_labels, frame["label"], LABEL_EXPECTED, TABLE, None)
    if options.get("min_rating") is not None:
        label = np.where(label >= options["min_rating"], label, 0)
    if options.get("labels") == "binary":
        label = (label > 0).astype(np.float32)
    return torch.from_numpy(np.asarray(label, np.float32))
