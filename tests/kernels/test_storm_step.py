"""STORM's kernel does what the optimiser does without it."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import kernels
from songrank.losses.schedules import Schedule
from songrank.training.optim.storm import Storm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("size", [1, 1025])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1},
        {"correction": 0.0},
        {"adam": True, "weight_decay": 0.1},
        {"adam": True, "correction": 1.0, "schedule": Schedule(c0=5.0, a=0.3)},
        {"adam": True, "correction": 0.0},
        {"schedule": Schedule(c0=5.0, a=2.0, c=0.5)},
    ],
    ids=str,
)
def test_a_tensor_takes_the_plain_steps(options, size, monkeypatch):
    start = torch.randn(size, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    found, wanted = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ways = {
        found: Storm([found], lr=0.05, gamma=0.2, **options),
        wanted: Storm([wanted], lr=0.05, gamma=0.2, **options),
    }
    used = []
    monkeypatch.setattr(Storm, "_by_kernel", lambda *parts: used.append(kernels._wanted) or kernels._wanted)
    generator = torch.Generator().manual_seed(1)
    for _ in range(8):
        slope, bend = (
            torch.randn(size, generator=generator).to(DEVICE),
            torch.rand(size, generator=generator).to(DEVICE),
        )
        for weight, optimiser in ways.items():
            optimiser.zero_grad()
            for point in (weight, optimiser.state[weight]["previous"]):
                (slope * point + bend * point.square()).sum().backward()
            with kernels.plain(weight is wanted):
                optimiser.step()
    assert used == [True, False] * 8
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    for name, value in ways[wanted].state[wanted].items():
        torch.testing.assert_close(ways[found].state[found][name], value, rtol=1e-5, atol=1e-6, msg=name)
