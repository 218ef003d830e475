"""Models by name."""

import pytest

from songrank import models
from songrank.models.registry import MODELS

SIZES = {
    "neumf": {"num_queries": 3, "num_items": 5},
    "matrix-factorisation": {"num_queries": 3, "num_items": 5},
    "two-tower": {"num_queries": 3, "num_items": 5, "similarity": "cosine"},
    "lightgcn": {"num_queries": 3, "num_items": 5, "edges": 4},
    "sequence": {"num_items": 5, "dim": 8, "length": 3},
    "history": {"num_items": 5, "dim": 8},
    "ease": {"num_items": 5, "regularisation": 20, "neighbours": "all"},
    "context-aware": {"num_features": 4, "dim": 8},
    "mlp": {"num_features": 4, "hidden": [8]},
    "label-mlp": {"num_features": 4, "num_labels": 5, "hidden": []},
    "xml-cnn": {"vocabulary": 9, "num_labels": 5, "dim": 4, "windows": [2]},
    "text-transformer": {"vocabulary": 9, "num_labels": 5, "dim": 8, "length": 3},
}


@pytest.mark.parametrize("name", MODELS)
def test_every_name_makes_its_model_from_plain_words_and_numbers(name):
    model = models.create(name, **SIZES[name])
    assert type(model) is MODELS[name]
    assert type(model).__name__ in models.__all__
    assert isinstance(model, models.CatalogueModel | models.ListModel)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match="name is 'bert'; expected one of 'neumf', 'matrix-factorisation', 'two-tower'"
    ):
        models.create("bert")


def test_an_unknown_or_missing_size_is_refused_with_the_known_ones():
    with pytest.raises(
        TypeError, match="unknown argument 'width' for model 'neumf'; expected num_queries, num_items, optional dim"
    ):
        models.create("neumf", num_queries=3, num_items=5, width=2)
    with pytest.raises(
        TypeError, match="missing argument 'num_items' for model 'neumf'; expected num_queries, num_items, optional"
    ):
        models.create("neumf", num_queries=3)
    with pytest.raises(TypeError, match="unknown argument 'tau' for model 'two-tower'; expected num_queries"):
        models.create("two-tower", tau=1.0)
