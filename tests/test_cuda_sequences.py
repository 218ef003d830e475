"""On a GPU: steps of packed histories make no transfer, are captured by shape, and give the numbers of plain steps."""

import copy

import pytest
import torch

from songrank.data import open_dataset
from songrank.training.build import make_trainer
from songrank.training.config.components import make_component
from songrank.training.run import Run
from songrank.training.trainer import captured_step, history_adapters
from songrank.training.trainer.captured_shapes import CapturedShapes
from songrank.training.trainer.history_adapters import make_adapter
from tests.training.trainer.test_packed_sequences import OPTIONS, data, float64_model, recipe, twins  # noqa: F401

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.mark.parametrize("irrelevant", ["all", 6])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_makes_no_transfer_and_gives_the_cpus_numbers(data, name, irrelevant):  # noqa: F811
    model = float64_model(OPTIONS[name])
    found = []
    for device in ("cpu", "cuda"):
        own = copy.deepcopy(model).to(device)
        adapter = make_adapter(open_dataset(data), device, own)
        loss = make_component("loss", {"name": "song"}, {"num_pairs": adapter.relevance.num_pairs}).double().to(device)
        sampler = twins(adapter, form="in bins", irrelevant=irrelevant)[1]
        plan = sampler.plan()
        numbers = plan.numbers.to(device)
        if device == "cuda":  # libraries are set up by a first step
            loss(adapter.scores(own, sampler.expand(plan.shape, numbers)), sampler.expand(plan.shape, numbers))
            loss.reset()
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
        try:
            slate = sampler.expand(plan.shape, numbers)
            value = loss(adapter.scores(own, slate), slate)
            value.backward()
        finally:
            if device == "cuda":
                torch.cuda.set_sync_debug_mode("default")
        found.append((value.detach().cpu(), {name: weight.grad.cpu() for name, weight in own.named_parameters()}))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-8, atol=1e-9)
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], gradient, rtol=1e-7, atol=1e-8, msg=name)


def trained(given, dataset, speed):
    """A run to its end without warnings, and its steps."""
    warnings, steps = [], []
    run = make_trainer(given, dataset, speed=speed, warn=warnings.append)
    make = captured_step.make_step

    def kept(*parts, **options):
        steps.append(make(*parts, **options))
        return steps[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("songrank.training.trainer.loop.make_step", kept)
        run.run()
    assert not warnings
    return run, steps


def gpu_recipe(data, dropout, **changes):  # noqa: F811
    model = {**recipe(data).model, "dropout": dropout}
    stage = {"epochs": 12, "learning_rate": 0.05, "optimiser": "sgd"}
    more = {"device": "cuda", "warm_up": {**stage, "loss": "softmax"}, "fine_tuning": {**stage, "decay": {6: 0.5}}}
    return recipe(data, model=model, **{**more, **changes})


@pytest.mark.parametrize("few_bytes", [False, True])
@pytest.mark.parametrize("loss", [{"name": "song"}, {"name": "k-song", "k": 5}, {"name": "faster-song"}])
def test_captured_runs_are_plain_runs(data, monkeypatch, loss, few_bytes):  # noqa: F811
    if few_bytes and loss["name"] == "faster-song":
        pytest.skip("it needs the whole batch")
    if few_bytes:
        monkeypatch.setattr(history_adapters, "_SLATE_BYTES", 45 * 4 * 23)  # some batches in parts
    dataset, given = open_dataset(data), gpu_recipe(data, 0.0, loss=loss)
    auto, steps = trained(given, dataset, "auto")
    plain, _ = trained(given, dataset, "plain")
    assert all(isinstance(step, CapturedShapes) for step in steps)
    assert few_bytes or all(step.graphs for step in steps)
    losses = [[line["loss"] for line in run.at.history] for run in (plain, auto)]
    rounding = 5e-3 if loss["name"] == "faster-song" else 1e-3  # its two gradients are of one small difference
    assert losses[1] == pytest.approx(losses[0], rel=rounding, abs=1e-5)
    for (name, one), other in zip(plain.model.named_parameters(), auto.model.parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-3, msg=name)


def test_a_captured_run_with_dropout_and_adam_resumes_to_the_same_bits(data, tmp_path):  # noqa: F811
    adam = {"epochs": 12, "learning_rate": 0.01}
    given = gpu_recipe(data, 0.3, deterministic=True, warm_up={**adam, "loss": "softmax"}, fine_tuning=adam)
    whole = Run.begin(given, tmp_path / "whole")
    assert whole.finish()
    stopped = Run.begin(given, tmp_path / "stopped")
    for step in (7, 30, 61):
        stopped.trainer.tick = lambda trainer=stopped.trainer, step=step: (
            trainer.stop() if trainer.at.step == step else None
        )
        assert not stopped.finish()
        stopped = Run.resume(tmp_path / "stopped")
    assert stopped.finish()
    assert stopped.trainer.at.history == whole.trainer.at.history
    for name, weight in whole.trainer.model.state_dict().items():
        assert torch.equal(weight, stopped.trainer.model.state_dict()[name]), name
