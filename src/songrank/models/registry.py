"""Registry of models by name."""

import inspect
from typing import Any

from songrank.core.checks import check_choice
from songrank.models.base import RankingModel
from songrank.models.context_aware import ContextAwareRanker
from songrank.models.ease import Ease
from songrank.models.history import HistoryModel
from songrank.models.lightgcn import LightGCN
from songrank.models.matrix_factorisation import MatrixFactorisation
from songrank.models.mlp import LabelMLP, MLPScorer
from songrank.models.neumf import NeuMF
from songrank.models.sequence import SequenceModel
from songrank.models.text_transformer import TextTransformer
from songrank.models.two_tower import TwoTower
from songrank.models.xml_cnn import XMLCNN

MODELS: dict[str, type[RankingModel]] = {
    "neumf": NeuMF,
    "matrix-factorisation": MatrixFactorisation,
    "two-tower": TwoTower,
    "lightgcn": LightGCN,
    "sequence": SequenceModel,
    "history": HistoryModel,
    "ease": Ease,
    "context-aware": ContextAwareRanker,
    "mlp": MLPScorer,
    "label-mlp": LabelMLP,
    "xml-cnn": XMLCNN,
    "text-transformer": TextTransformer,
}
INPUTS: dict[str, tuple[str, ...]] = {}
"""Names of models by input, as in model folders."""
for _name, _kind in MODELS.items():
    INPUTS[_kind.capabilities.inputs] = (*INPUTS.get(_kind.capabilities.inputs, ()), _name)


def create(name: str, **sizes: Any) -> RankingModel:
    """Create a model by name, a key of ``MODELS`` such as neumf, sequence, context-aware or label-mlp.

    >>> from songrank import models
    >>> model = models.create("neumf", num_queries=100, num_items=50, dim=16)
    >>> type(model).__name__
    'NeuMF'
    >>> models.create("mlp", features=5)
    Traceback (most recent call last):
    TypeError: unknown argument 'features' for model 'mlp'; expected num_features, optional hidden, dropout, activation
    """
    kind = MODELS[check_choice("name", name, tuple(MODELS))]
    known = inspect.signature(kind).parameters
    needed = [word for word, parameter in known.items() if parameter.default is parameter.empty]
    wrong = [f"unknown argument {word!r} for model {name!r}" for word in sizes if word not in known]
    wrong += [f"missing argument {word!r} for model {name!r}" for word in needed if word not in sizes]
    if wrong:
        optional = ", ".join(word for word in known if word not in needed)
        raise TypeError(f"{wrong[0]}; expected {', optional '.join(filter(None, [', '.join(needed), optional]))}")
    return kind(**sizes)
