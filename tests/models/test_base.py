"""The base of all models."""

import pytest
import torch

from songrank.models import MatrixFactorisation, SequenceModel
from songrank.models.base import capabilities_of
from songrank.models.registry import MODELS


def test_a_module_of_another_origin_reads_ids():
    assert capabilities_of(torch.nn.Linear(2, 1)).query == "ids"
    assert capabilities_of(None).query == "ids"


def test_the_history_length_is_that_of_the_model():
    assert SequenceModel(9, dim=4, blocks=1, heads=1, length=6).history_length == 6
    assert MatrixFactorisation(4, 9, dim=2).history_length is None


@pytest.mark.parametrize(("pairs", "kinds"), [(2, {"query", "item"}), (1000, {"query"})])
def test_tables_of_items_are_read_in_part_where_there_are_more_items_than_pairs(pairs, kinds):
    tables = MatrixFactorisation(4, 9, dim=2).row_tables(pairs)
    assert {kind for kind, embeddings in tables.items() if embeddings} == kinds


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_declares_what_describes_a_query(name):
    declared = MODELS[name].capabilities
    assert declared.inputs in {"ids", "histories", "documents", "features", "words"}
    assert bool(declared.query_tables) <= (declared.query == "ids")
    assert declared.pointwise <= (declared.query == "documents")
