"""Models by name, for recipes and commands that hold nothing but words and numbers."""

import inspect
from typing import Any

from torch import nn

from songrank.core.checks import check_choice
from songrank.models.context_aware import ContextAwareRanker
from songrank.models.history import HistoryModel
from songrank.models.matrix_factorisation import MatrixFactorisation
from songrank.models.mlp import LabelMLP, MLPScorer
from songrank.models.neumf import NeuMF
from songrank.models.sequence import SequenceModel
from songrank.models.text_transformer import TextTransformer
from songrank.models.two_tower import TwoTower
from songrank.models.xml_cnn import XMLCNN

MODELS: dict[str, type[nn.Module]] = {
    "neumf": NeuMF,
    "matrix-factorisation": MatrixFactorisation,
    "two-tower": TwoTower,
    "sequence": SequenceModel,
    "history": HistoryModel,
    "context-aware": ContextAwareRanker,
    "mlp": MLPScorer,
    "label-mlp": LabelMLP,
    "xml-cnn": XMLCNN,
    "text-transformer": TextTransformer,
}
INPUTS = {
    "ids": ("neumf", "matrix-factorisation", "two-tower"),
    "histories": ("sequence", "history"),
    "documents": ("context-aware", "mlp"),
    "features": ("label-mlp",),
    "words": ("xml-cnn", "text-transformer"),
}
"""Which models read what of a query: its id, what it turned to before, its documents, features of a text, its words."""


def inputs_of(name: str) -> str:
    """What the model of this name reads, a key of ``INPUTS``.

    >>> inputs_of("neumf"), inputs_of("sequence")
    ('ids', 'histories')
    """
    check_choice("name", name, tuple(MODELS))
    return next(inputs for inputs, names in INPUTS.items() if name in names)


def history_length(model: nn.Module | None) -> int | None:
    """How many items of a history this model reads, by its ``history_length``; None where its queries are no histories.

    >>> history_length(SequenceModel(num_items=9, dim=8, length=5)), history_length(NeuMF(num_queries=3, num_items=9))
    (5, None)
    """
    found: int | None = getattr(model, "history_length", None)
    return found


def create(name: str, **sizes: Any) -> nn.Module:
    """The model of this name, such as neumf, sequence, context-aware or label-mlp: a key of ``MODELS``.

    >>> from songrank import models
    >>> model = models.create("neumf", num_queries=100, num_items=50, dim=16)
    >>> type(model).__name__
    'NeuMF'
    >>> models.create("mlp", features=5)
    Traceback (most recent call last):
    TypeError: features is no argument of mlp; expected num_features, and perhaps hidden, dropout, activation
    """
    kind = MODELS[check_choice("name", name, tuple(MODELS))]
    known = inspect.signature(kind).parameters
    needed = [word for word, parameter in known.items() if parameter.default is parameter.empty]
    wrong = [f"{word} is no argument of {name}" for word in sizes if word not in known]
    wrong += [f"{word} of {name} is not given" for word in needed if word not in sizes]
    if wrong:
        optional = ", ".join(word for word in known if word not in needed)
        raise TypeError(f"{wrong[0]}; expected {', and perhaps '.join(filter(None, [', '.join(needed), optional]))}")
    return kind(**sizes)
