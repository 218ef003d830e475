"""Adam's kernels do what their torch twins and torch's own Adam do."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import kernels
from songrank.kernels import row_steps
from songrank.training.optim import row_adam
from songrank.training.optim.row_adam import RowAdam

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BETAS, LIMIT = (0.9, 0.999), 198
ROUNDING = {"rtol": 2e-6, "atol": 1e-6}
# 210 steps, each off by half a last digit, since one path fuses products and sums and the other does not.
MANY_ROUNDINGS = {"rtol": 3e-5, "atol": 1e-5}


def some_tables(count, rows, width, now):
    """Weights, two moments, gradients and last steps of each table, in the midst of a run."""
    generator = torch.Generator().manual_seed(5)

    def numbers():
        return torch.randn(rows, width, generator=generator).to(DEVICE)

    last = torch.tensor([now - 9, now - 3, now - 210, now - 1, now], dtype=torch.int32, device=DEVICE)[:rows]
    return [[numbers(), numbers(), numbers().square(), numbers(), last.clone()] for _ in range(count)]


@pytest.mark.parametrize("rows", [None, [3, 1, 3, 3, 0, 4], [2]])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize(("apply", "lazy"), [(False, False), (True, False), (True, True)])
def test_rows_take_the_steps_that_their_twin_takes(apply, lazy, decay, rows):
    now = 212
    here, there = some_tables(2, 5, 3, now), some_tables(2, 5, 3, now)
    step, corrections = torch.tensor(now, device=DEVICE), row_adam._corrections(BETAS).to(DEVICE)
    some = None if rows is None else torch.tensor(rows, device=DEVICE)
    options = {"rate": 0.02, "betas": BETAS, "epsilon": 1e-4, "decay": decay, "apply": apply, "lazy": lazy}
    options["limit"] = 2**30 if decay else LIMIT
    for weight, first, second, gradient, last in here:
        row_adam.take_steps(weight, (first, second), gradient, last, some, step, corrections, **options)
    addresses = torch.tensor([[part.data_ptr() for part in table] for table in there], device=DEVICE)
    row_steps.take_steps(addresses, 3, 5 if some is None else some, step, corrections, **options)
    allowed = MANY_ROUNDINGS if decay and DEVICE == "cuda" else ROUNDING
    for one, other in zip(here, there, strict=True):
        for name, wanted, found in zip(("weight", "m", "v", "gradient", "last"), one, other, strict=True):
            torch.testing.assert_close(found, wanted, **allowed, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("size", [1, 1025])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_whole_tensor_takes_torchs_steps(size, decay):
    generator = torch.Generator().manual_seed(6)
    start = torch.randn(size, generator=generator).to(DEVICE)
    wanted, found = nn.Parameter(start.clone()), start.clone()
    optimiser = torch.optim.Adam([wanted], 0.01, weight_decay=decay)
    moments = torch.zeros_like(found), torch.zeros_like(found)
    options = {"rate": 0.01, "betas": BETAS, "epsilon": 1e-8, "decay": decay}
    for step in range(1, 6):
        wanted.grad = torch.randn(size, generator=generator).to(DEVICE)
        number = torch.tensor(step, device=DEVICE)
        row_steps.whole_step(found, moments, wanted.grad, number, row_adam._corrections(BETAS).to(DEVICE), **options)
        optimiser.step()
    state = optimiser.state[wanted]
    for one, other in ((found, wanted), (moments[0], state["exp_avg"]), (moments[1], state["exp_avg_sq"])):
        torch.testing.assert_close(one, other.detach(), **ROUNDING)


def test_an_optimiser_that_works_by_kernels_ends_where_torchs_adam_ends(monkeypatch):
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    ends = []
    for rows_wait in (False, True):
        torch.manual_seed(7)
        one, two, top = (part.to(DEVICE) for part in (nn.Embedding(9, 3), nn.Embedding(9, 3), nn.Linear(3, 2)))
        groups = [{"params": [one.weight, two.weight, top.weight], "weight_decay": 0.01}, {"params": [top.bias]}]
        optimiser = RowAdam(groups, 0.05, {"query": [one, two]}) if rows_wait else torch.optim.Adam(groups, 0.05)
        for step in range(12):
            rows = torch.tensor([step % 4, 1, step % 4, 4 + step % 5], device=DEVICE)
            if rows_wait:
                optimiser.catch_up(query=rows)
            (top(one(rows) + 2 * two(rows)) * torch.arange(1.0, 3.0, device=DEVICE)).sum().backward()
            optimiser.step()
            optimiser.zero_grad()
        state = optimiser.state_dict()["state"]
        assert all(float(of["step"]) == 12 for of in state.values())
        moments = [of[name] for of in state.values() for name in ("exp_avg", "exp_avg_sq")]
        ends.append([one.weight, two.weight, top.weight, top.bias, *moments])
    for found, wanted in zip(ends[1], ends[0], strict=True):
        torch.testing.assert_close(found.detach(), wanted.detach(), **ROUNDING)
