"""Positions of relevant items in a ranking of all items."""

import pytest

from songrank.functional.ranks import TIES
from songrank.metrics import evaluate_catalogue, positions
from tests.metrics.small_catalogue import ITEMS, assert_same, names_for, task


@pytest.mark.parametrize("ties", TIES)
def test_positions_do_not_depend_on_how_many_rows_are_counted_at_once(ties, monkeypatch):
    scores, targets, _, _ = task()
    whole = evaluate_catalogue(lambda query: scores[query], targets, metrics=names_for(ties), ties=ties)
    monkeypatch.setattr(positions, "_CPU_CELLS", 2 * ITEMS)
    assert_same(evaluate_catalogue(lambda query: scores[query], targets, metrics=names_for(ties), ties=ties), whole)
