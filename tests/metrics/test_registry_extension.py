"""Adding a metric: its formula, one line of the registry, its test and its docs entry."""

import torch

from songrank.data import prepare
from songrank.metrics import evaluate_lists
from songrank.metrics.names import FORMULAS
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run


def firsts(spans, k, gain):
    """1 where the best place of a relevant item is the first."""
    return FORMULAS["precision"](spans, 1, gain)


def test_a_registered_metric_is_evaluated_and_validated_by(monkeypatch, tmp_path):
    monkeypatch.setitem(FORMULAS, "first", firsts)
    scores, labels = torch.tensor([3.0, 2.0, 1.0, 2.0]), torch.tensor([1.0, 0.0, 0.0, 1.0])
    found = evaluate_lists(scores, labels, lengths=[2, 2], metrics="first")
    assert found.per_query["first"].tolist() == [1.0, 1.0]
    prepare("synthetic", None, tmp_path / "data", queries=20, items=30, pairs=200)
    recipe = Recipe.read(
        {
            "data": str(tmp_path / "data"),
            "model": {"name": "matrix-factorisation", "dim": 3},
            "batch": {"irrelevant": 10},
            "fine_tuning": {"epochs": 1},
            "warm_up": {"epochs": 0},
            "validation": {"metric": "first@5"},
            "evaluation": {"metrics": ["first", "ndcg@10"]},
            "device": "cpu",
        }
    )
    run = Run.begin(recipe, tmp_path / "run")
    assert run.finish()
    assert list(run.results["test"].values) == ["first", "ndcg@10"]
    assert "validation first@5" in run.trainer.at.history[0]
