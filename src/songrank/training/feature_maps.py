"""Vectors of items and users without training data, from their features, after training."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from songrank.data import Dataset
from songrank.functional.feature_map import FeatureMap
from songrank.models.base import DotProductModel, RankingModel

WORDS = ("item", "user")


@torch.no_grad()
def map_features(model: RankingModel, dataset: Dataset, words: Sequence[str] = WORDS) -> dict[str, FeatureMap]:
    """Fit a linear map from features to the rows of each table of the model, and set the rows without training data.

    The rows are those of items and users with training pairs, whose vectors do not change (attribute-to-factor mapping;
    Gantner et al., *Learning Attribute-to-Feature Mappings for Cold-Start Recommendations*, ICDM 2010). For cosine
    scores they are divided by their lengths. The result is empty for data without features.

    Args:
        model: a trained model; ids without training pairs get other vectors.
        dataset: its training data.
        words: ``"item"``, ``"user"``, or both.
    """
    maps, able = {}, model.capabilities
    for word, names in (("item", able.item_tables), ("user", able.query_tables)):
        rows = dataset.features.get(word)
        if rows is None or word not in words or not bool(rows.trained.any()):
            continue
        state = model.state_dict()
        for name in (name for name in names if name in state):
            table = state[name]
            vectors = table.detach().float().cpu().reshape(len(rows), -1)
            found = FeatureMap.fit(rows, F.normalize(vectors) if is_cosine(model) else vectors)
            new = (~rows.trained).nonzero().squeeze(1)
            values = found.values(rows.take(new)).to(table)
            table[new.to(table.device)] = values.view(-1, *table.shape[1:])
            maps[name] = found
    return maps


def is_cosine(model: RankingModel) -> bool:
    """Whether only directions of vectors matter."""
    return isinstance(model, DotProductModel) and model.cosine
