"""Declared capabilities of all models."""

import pytest

from songrank.models.registry import MODELS


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_declares_what_describes_a_query(name):
    declared = MODELS[name].capabilities
    assert declared.inputs in {"ids", "histories", "documents", "features", "words"}
    assert bool(declared.query_tables) <= (declared.query == "ids")
    assert declared.pointwise <= (declared.query == "documents")
