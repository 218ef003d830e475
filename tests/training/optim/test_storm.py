"""STORM as an optimiser: two gradients in, one momentum out."""

import copy

import pytest
import torch
from torch import nn

from songrank.losses.schedules import Schedule
from songrank.training.optim.storm import Storm


def noisy(seed):
    """A draw of ½ wᵀ A w − bᵀ w, and its gradient."""
    generator = torch.Generator().manual_seed(seed)
    root, b = torch.randn(3, 3, generator=generator).double(), torch.randn(3, generator=generator).double()
    return lambda w: 0.5 * (root @ w).square().sum() - b @ w, lambda w: root.T @ (root @ w) - b


def take(optimiser, w, value):
    optimiser.zero_grad()
    (value(w) + value(optimiser.state[w]["previous"])).backward()
    optimiser.step()


def parameter():
    return nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize(("adam", "kappa"), [(False, 1.0), (False, 0.5), (True, 0.5), (True, 1.0)])
def test_it_is_the_formula_step_by_step(decay, scheduled, adam, kappa):
    w = parameter()
    schedule = Schedule(c0=10.0, a=0.4, c=2.0) if scheduled else None
    options = {"adam": adam, "correction": kappa, "beta2": 0.9, "schedule": schedule}
    optimiser = Storm([w], lr=0.01, gamma=0.2, weight_decay=decay, **options)
    at, behind, m, v = w.detach().clone(), w.detach().clone(), torch.zeros(3).double(), torch.zeros(3).double()
    for t in range(1, 31):
        value, gradient = noisy(t)
        take(optimiser, w, value)
        now, then = gradient(at) + decay * at, gradient(behind) + decay * behind
        eta = 2.0 / (10.0 + t) ** (1 / 3) if scheduled else 1.0
        gamma = min(0.5, 0.4 * eta**2) if scheduled else 0.2
        m = now if t == 1 else (1 - gamma) * (m + kappa * (now - then)) + gamma * now
        c = now if t == 1 else now + kappa * (1 - gamma) / gamma * (now - then)
        v = 0.9 * v + 0.1 * c**2
        move = m / ((v / (1 - 0.9**t)).sqrt() + 1e-8) if adam else m
        at, behind = at - 0.01 * eta * move, at
        torch.testing.assert_close(optimiser.state[w]["momentum"], m, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(optimiser.state[w]["previous"].detach(), behind, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(w.detach(), at, rtol=1e-9, atol=1e-12)


def test_with_gamma_one_it_is_sgd():
    w, twin = parameter(), parameter()
    optimiser, sgd = Storm([w], lr=0.05, gamma=1.0, weight_decay=0.1), torch.optim.SGD([twin], 0.05, weight_decay=0.1)
    for t in range(10):
        value, _ = noisy(t)
        take(optimiser, w, value)
        sgd.zero_grad()
        value(twin).backward()
        sgd.step()
    torch.testing.assert_close(w, twin)


def test_without_correction_it_is_ordinary_momentum_and_needs_one_gradient():
    w, twin = parameter(), parameter()
    optimiser = Storm([w], lr=0.05, gamma=0.1, correction=0.0, weight_decay=0.1)
    sgd = torch.optim.SGD([twin], 0.05, momentum=0.9, dampening=0.9, weight_decay=0.1)
    for t in range(10):
        value, _ = noisy(t)
        for one, with_it in ((w, optimiser), (twin, sgd)):
            with_it.zero_grad()
            value(one).backward()
            with_it.step()
    torch.testing.assert_close(w, twin)


def test_the_last_step_is_what_the_weights_moved():
    model = nn.Linear(3, 1)
    optimiser = Storm(model.parameters(), lr=0.1, correction=0.0)
    assert all(not step.any() for step in optimiser.last_step(model).values())
    before = model.weight.detach().clone()
    model(torch.ones(2, 3)).sum().backward()
    optimiser.step()
    torch.testing.assert_close(optimiser.last_step(model)["weight"], model.weight.detach() - before)


def test_the_momentum_is_nearer_to_the_true_gradient_than_a_draw_is():
    """STORM's point: with small steps its error is far below that of one draw."""
    draws = [noisy(seed)[1] for seed in range(200)]
    w = parameter()
    optimiser = Storm([w], lr=1e-4, gamma=0.02)
    picks = torch.randint(0, 200, (600,), generator=torch.Generator().manual_seed(0)).tolist()
    errors, plain = [], []
    for t, pick in enumerate(picks):
        truth = torch.stack([draw(w.detach()) for draw in draws]).mean(0)
        plain.append(float((draws[pick](w.detach()) - truth).norm()))
        take(optimiser, w, noisy(pick)[0])
        if t > 300:
            errors.append(float((optimiser.state[w]["momentum"] - truth).norm()))
    assert sum(errors) / len(errors) < 0.3 * sum(plain) / len(plain)


def test_previous_names_the_parameters_that_are_trained_here():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    optimiser = Storm(model[1].parameters(), lr=0.1)
    previous = optimiser.previous(model)
    assert list(previous) == ["1.weight", "1.bias"]
    assert all(copy.requires_grad and copy.is_leaf for copy in previous.values())


@pytest.mark.parametrize("adam", [False, True])
def test_a_saved_state_goes_on_to_the_same_bits_and_keeps_the_copies(adam):
    w, twin = parameter(), parameter()
    first, second = (Storm([p], lr=0.01, gamma=0.3, adam=adam) for p in (w, twin))
    for t in range(5):
        take(first, w, noisy(t)[0])
    held = second.state[twin]["previous"]
    twin.data.copy_(w.data)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.state[twin]["previous"] is held
    for t in range(5, 12):
        take(first, w, noisy(t)[0])
        take(second, twin, noisy(t)[0])
    assert torch.equal(w, twin)
    assert torch.equal(held, first.state[w]["previous"])


def test_a_loaded_state_does_not_share_memory_with_what_was_saved():
    w, twin = parameter(), parameter()
    first, second = Storm([w], lr=0.01), Storm([twin], lr=0.01)
    take(first, w, noisy(0)[0])
    second.load_state_dict(first.state_dict())
    before = first.state[w]["momentum"].clone()
    take(second, twin, noisy(1)[0])
    assert torch.equal(first.state[w]["momentum"], before)


def test_a_parameter_without_a_gradient_stays_and_its_copy_catches_up():
    w, idle = parameter(), parameter()
    optimiser = Storm([w, idle], lr=0.1)
    value, _ = noisy(0)
    both = [p for q in (w, idle) for p in (q, optimiser.state[q]["previous"])]
    sum(value(p) for p in both).backward()
    optimiser.step()
    moved = idle.detach().clone()
    assert not torch.equal(moved, optimiser.state[idle]["previous"])
    take(optimiser, w, value)
    assert torch.equal(idle, moved)
    assert torch.equal(idle, optimiser.state[idle]["previous"])


def test_a_gradient_at_one_point_alone_is_refused():
    w = parameter()
    optimiser = Storm([w], lr=0.1)
    noisy(0)[0](w).backward()
    with pytest.raises(ValueError, match="before="):
        optimiser.step()
