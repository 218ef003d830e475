"""The exponential moving average (EMA) of weights."""

import copy
from dataclasses import replace

import pytest
import torch

from songrank.training.optim.ema import WeightEMA
from songrank.training.trainer.stages import Stage
from tests.training.small_run import trainer
from tests.training.trainer.small_loop import equal


def weights(model):
    return {name: weight.double().clone() for name, weight in model.state_dict().items()}


def test_the_mean_of_weights_is_what_is_kept_and_training_does_not_know_of_it(dataset):
    def train(ema_decay):
        seen = []
        run = trainer(dataset, ema_decay=ema_decay, observe=lambda line: seen.append(weights(run.model)))
        run.run()
        return run, seen

    run, seen = train(0.6)
    for with_mean, with_none in zip(seen[:4], train(None)[1], strict=False):  # fine-tuning begins from the mean
        equal(with_mean, with_none)
    looks = [line["validation ndcg@10"] for line in run.at.history[4:] if "validation ndcg@10" in line]
    last = 2 * looks.index(max(looks)) + 2  # there is a look after every second epoch
    shares = [0.6 ** (last - epoch) for epoch in range(1, last + 1)]
    best = {
        name: sum(share * at[name] for share, at in zip(shares, seen[4:], strict=False)) / sum(shares)
        for name in seen[-1]
    }
    for name, weight in weights(run.model).items():
        torch.testing.assert_close(weight, best[name], rtol=0, atol=1e-6, msg=name)
    assert run.evaluate("validation", metrics=["ndcg@10"]).values["ndcg@10"] == max(looks)


def test_without_looks_the_last_mean_is_the_result_of_each_stage(dataset, tmp_path, monkeypatch):
    begun, kept = [], []
    make = Stage.make_optimiser

    def making(stage, model, *how):
        begun.append({name: weight.detach().clone() for name, weight in model.named_parameters()})
        return make(stage, model, *how)

    monkeypatch.setattr(Stage, "make_optimiser", making)
    run = trainer(dataset, tmp_path, evaluate_every=0)
    run.stages[1] = replace(run.stages[1], reset_head=False)
    monkeypatch.setattr(run.checkpoints, "save", lambda step, state: kept.append(copy.deepcopy(state)))
    run.run()
    warm, last = kept
    equal(begun[1], warm["mean"])
    equal(dict(run.model.named_parameters()), last["mean"])
    # the weights that the memory belongs to stay in the state
    assert any(not torch.equal(last["model"][name], weight) for name, weight in last["mean"].items())


def test_a_mean_that_was_saved_is_gone_on_with_and_not_written_to():
    model, saved = torch.nn.Linear(1, 1, bias=False), {"weight": torch.zeros(1, 1)}
    torch.nn.init.ones_(model.weight)
    mean = WeightEMA(model)
    mean.begin(saved)
    mean.follow(0.5, 2)
    assert (mean.weights["weight"].item(), saved["weight"].item()) == (pytest.approx(2 / 3), 0.0)
