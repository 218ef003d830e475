"""LightGBM's LambdaRank as a member of a blend with a network; LightGBM is optional."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from songrank.analysis.blend_weights import choose_list_weights, standardise_lists
from songrank.core.columns import Array
from songrank.core.errors import DataError, UserError
from songrank.data.adapters.documents import Documents

MODEL = "lightgbm.txt"
"""Name of the file, in LightGBM's text format."""
ROUNDS = 100
"""Default number of trees, as in ``LGBMRanker``."""
WEIGHT = 0.5
"""Weight in the blend where there is no evaluation set to choose it on."""
_MOST_LABEL = 30  # of LightGBM's default gains


@dataclass(frozen=True)
class LightGBMPart:
    """A fitted LightGBM model and its weight w in a blend with a network.

    score = (1 − w) · network + w · LightGBM, both standardised within the list.
    """

    booster: Any
    weight: float = WEIGHT

    @classmethod
    def fit(cls, documents: Documents, options: Mapping[str, Any], seed: int) -> Self:
        """Train on the features as given, with LightGBM's parameters ``options``."""
        lightgbm, order = import_lightgbm(), documents.lists.order
        label = documents.label[order]
        other = label[(label != np.round(label)) | (label > _MOST_LABEL)]
        if other.size:
            fix = f"LightGBM expects whole numbers up to {_MOST_LABEL}; leave out lightgbm"
            raise DataError(f"y has the label {other[0]:g}", fix)
        told: dict[str, Any] = {"objective": "lambdarank", "verbosity": -1, "seed": seed}
        told |= {"num_threads": torch.get_num_threads(), **options}
        rounds = int(told.pop("n_estimators", ROUNDS))
        data = lightgbm.Dataset(_dense(documents, order), label, group=documents.lists.lengths)
        return cls(lightgbm.train(told, data, num_boost_round=rounds))

    @classmethod
    def read(cls, text: bytes, weight: float) -> Self:
        """The inverse of :meth:`text`."""
        return cls(import_lightgbm().Booster(model_str=text.decode()), weight)

    def text(self) -> bytes:
        """The model in LightGBM's text format."""
        return str(self.booster.model_to_string()).encode()

    def with_weight(self, network: Array, documents: Documents, metric: str, **policies: Any) -> "LightGBMPart":
        """The same model with the weight that is best for documents, whose scores by the network are given."""
        order, lengths = documents.lists.order, torch.from_numpy(documents.lists.lengths)
        scores = [torch.from_numpy(some).double() for some in (network[order], self._scores(_dense(documents, order)))]
        labels = torch.from_numpy(documents.label[order])
        return LightGBMPart(self.booster, choose_list_weights(scores, labels, lengths, metric, **policies).weights[1])

    def blended(self, network: Array, features: Array, lengths: Array) -> Array:
        """Scores of the blend, from those of the network, for lists of consecutive rows."""
        parts: Sequence[Array] = (network, self._scores(features))
        ends = torch.from_numpy(lengths)
        own, other = (standardise_lists(torch.from_numpy(np.asarray(part, np.float64)), ends) for part in parts)
        found: Array = ((1 - self.weight) * own + self.weight * other).float().numpy()
        return found

    def _scores(self, features: Array) -> Array:
        return np.asarray(self.booster.predict(features), np.float64)


def _dense(documents: Documents, order: Array) -> Array:
    features = documents.features.take(order)
    return features.dense(0, features.rows)


def import_lightgbm() -> Any:
    """The package ``lightgbm``; a ``UserError`` if it is not installed."""
    try:
        return importlib.import_module("lightgbm")
    except ImportError:
        raise UserError("lightgbm=True needs LightGBM, which is not installed: pip install lightgbm") from None
