"""Adding an optimiser: its own file, one line of the registry, its test and its docs entry."""

import pytest
import torch

from songrank.data import prepare
from songrank.training.config.recipe import Recipe
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.optim.registry import OPTIMISERS, OptimiserKind
from songrank.training.run import Run


class SignSGD(TrainingOptimiser):
    """w ← w − lr · sign(gradient)."""

    def __init__(self, groups, rate):
        super().__init__(groups, {"lr": rate})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.sub_(weight.grad.sign() * group["lr"])


def test_a_registered_optimiser_trains(monkeypatch, tmp_path):
    kind = OptimiserKind(lambda groups, stage, model, speed: SignSGD(groups, stage.learning_rate))
    monkeypatch.setitem(OPTIMISERS, "sign-sgd", kind)
    prepare("synthetic", None, tmp_path / "data", queries=20, items=30, pairs=200)
    recipe = Recipe.read(
        {
            "data": str(tmp_path / "data"),
            "model": {"name": "matrix-factorisation", "dim": 3},
            "batch": {"irrelevant": 10, "queries": 20},
            "warm_up": {"epochs": 0},
            "fine_tuning": {"epochs": 1, "optimiser": "sign-sgd", "learning_rate": 0.25},
            "device": "cpu",
        }
    )
    run = Run.begin(recipe, tmp_path / "run")
    before = {name: weight.detach().clone() for name, weight in run.trainer.model.named_parameters()}
    assert run.finish()
    for name, weight in run.trainer.model.named_parameters():
        step = (weight.detach() - before[name]).abs()
        assert set(step.unique().mul(4).round().tolist()) <= {0.0, 1.0}, name
    assert (run.trainer.model.item_factors.weight.detach() != before["item_factors.weight"]).any()


def test_an_unknown_optimiser_is_one_line():
    values = {"data": "x", "model": "neumf", "fine_tuning": {"epochs": 1, "optimiser": "adamw"}}
    expected = r"^fine_tuning.optimiser is 'adamw'; expected 'adam', 'lazy-adam' or 'sgd'$"
    with pytest.raises(ValueError, match=expected):
        Recipe.read(values)
