"""Optimisers of the training loop."""

import pytest
import torch

from songrank.training.optim.base import SGD, Adam


@pytest.mark.parametrize(("ours", "theirs"), [(Adam, torch.optim.Adam), (SGD, torch.optim.SGD)])
def test_steps_are_torchs(ours, theirs):
    weights = [torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2)]
    for kind, weight in zip((ours, theirs), weights, strict=True):
        optimiser = kind([weight], lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            weight.square().sum().backward()
            optimiser.step()
    assert torch.equal(*weights)


def test_a_resumed_optimiser_keeps_the_options_of_its_own_device():
    weight = torch.nn.Parameter(torch.ones(2))
    saved = Adam([weight], lr=0.5, foreach=True).state_dict()
    optimiser = Adam([weight], lr=0.1, foreach=False)
    optimiser.resume(saved)
    assert optimiser.param_groups[0]["lr"] == 0.5
    assert optimiser.param_groups[0]["foreach"] is False


def test_scores_are_those_of_the_model_and_the_loss_takes_nothing_else():
    model = torch.nn.Linear(2, 1)
    found, more = SGD(model.parameters(), lr=0.1).scores(model, lambda one: one(torch.ones(1, 2)), points=1)
    torch.testing.assert_close(found, model(torch.ones(1, 2)))
    assert more == {}
