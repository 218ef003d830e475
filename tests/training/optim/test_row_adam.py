"""Rows that wait end where torch's Adam takes them, and lazy ones where SparseAdam does."""

import copy
import math

import pytest
import torch
from torch import nn

from songrank.training.optim.row_adam import RowAdam, _corrections

STEPS = 260  # row 7 waits for longer than the 198 steps after which m is taken to add nothing


class Small(nn.Module):
    """Tables of two kinds and two widths, and two parameters beside them."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.item = nn.Embedding(8, 5), nn.Embedding(8, 2), nn.Embedding(6, 5)
        self.weight, self.bias = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(4))
        self.to(dtype)

    @property
    def tables(self):
        return {"query": [self.one, self.two], "item": [self.item]}

    def groups(self, decay):
        weights = [parameter for name, parameter in self.named_parameters() if name != "bias"]
        return [{"params": weights, "weight_decay": decay}, {"params": [self.bias], "weight_decay": 0.0}]


def rows_of(step):
    """Rows of a step, some more than once; query 6 and item 5 are never touched, query 7 at two steps far apart."""
    query = [step % 5, 1, 1, (3 * step) % 6]
    return {
        "query": torch.tensor(query if step not in (2, STEPS - 5) else [*query[:3], 7]),
        "item": torch.tensor([[step % 3, 4 if step % 40 == 0 else 0], [2, step % 2]]),
    }


def take(model, optimiser, steps, tables=("one", "two", "item")):
    """Steps whose gradients are given numbers, the same for every optimiser."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        rows = rows_of(step)
        if isinstance(optimiser, RowAdam):
            optimiser.catch_up(**rows)
        total = 0.0
        for name in tables:
            found = getattr(model, name)(rows["item" if name == "item" else "query"])
            total = total + (found * torch.randn(found.shape, generator=generator)).sum()
        for parameter in (model.weight, model.bias):
            total = total + (parameter * torch.randn(parameter.shape, generator=generator)).sum()
        total.backward()
        optimiser.step()
        optimiser.zero_grad()


def adam(model, decay=0.0, rate=0.02, **options):
    return torch.optim.Adam(model.groups(decay), rate, **options)


def waiting(model, decay=0.0, rate=0.02, **options):
    return RowAdam(model.groups(decay), rate, model.tables, **options)


def numbers(model, optimiser):
    """Weights and moments by name; an optimiser that waits catches up."""
    state = optimiser.state_dict()["state"]
    found = {name: parameter.detach() for name, parameter in model.named_parameters()}
    ordered = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    names = {parameter: name for name, parameter in model.named_parameters()}
    for at, parameter in enumerate(ordered):
        found |= {f"{names[parameter]} {moment}": state[at][moment] for moment in ("exp_avg", "exp_avg_sq")}
    return found


def assert_close(found, wanted, rtol=1e-5, atol=2e-6):
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], rtol=rtol, atol=atol, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_rows_that_wait_end_as_exactly_as_dense_adam_itself(decay):
    exact, dense, patient = Small(torch.float64), Small(), Small()
    ends = []
    for model, make in ((exact, adam), (dense, adam), (patient, waiting)):
        optimiser = make(model, decay)
        take(model, optimiser, range(STEPS))
        ends.append(numbers(model, optimiser))
    for name, value in ends[0].items():
        own, other = ((end[name].double() - value).abs().max() for end in ends[1:])
        assert other <= 2 * own + 2e-7 * value.abs().max(), name
    start = Small().one.weight[6]
    assert torch.equal(patient.one.weight[6], start) == (decay == 0.0)


def test_a_learning_rate_changes_after_a_flush():
    ends = []
    for make in (adam, waiting):
        model = Small()
        optimiser = make(model, 0.01)
        for rate, steps in ((0.02, range(40)), (0.005, range(40, 90)), (0.03, range(90, 120))):
            if isinstance(optimiser, RowAdam):
                optimiser.flush()
            for group in optimiser.param_groups:
                group["lr"] = rate
            take(model, optimiser, steps)
        ends.append(numbers(model, optimiser))
    assert_close(*ends)


def test_flushing_at_any_step_changes_nothing():
    ends = []
    for every in (1, 7, 1000):
        model = Small()
        optimiser = waiting(model, 0.01)
        for step in range(50):
            take(model, optimiser, [step])
            if step % every == 0:
                optimiser.flush()
        ends.append(numbers(model, optimiser))
    assert_close(ends[0], ends[2], rtol=0.0, atol=0.0)
    assert_close(ends[1], ends[2], rtol=0.0, atol=0.0)


def handed_over(first, second, copied, between=lambda optimiser: None):
    """Train with one optimiser, then with another that goes on from its state."""
    model = Small()
    optimiser = first(model, 0.01)
    take(model, optimiser, range(60))
    state = optimiser.state_dict()
    if isinstance(optimiser, RowAdam):
        optimiser.close()
    after = second(model, 0.01)
    after.load_state_dict(copy.deepcopy(state) if copied else state)
    between(after)
    take(model, after, range(60, 110))
    return numbers(model, after), after


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(("first", "second"), [(adam, waiting), (waiting, adam), (waiting, waiting)])
def test_each_goes_on_from_the_others_state(first, second, copied):
    found, optimiser = handed_over(first, second, copied)
    assert_close(found, handed_over(adam, adam, True)[0])
    assert {float(state["step"]) for state in optimiser.state_dict()["state"].values()} == {110.0}


@pytest.mark.parametrize("first", [adam, waiting])
def test_a_learning_rate_that_is_set_after_a_state_was_loaded_counts(first):
    def slower(optimiser):
        for group in optimiser.param_groups:
            group["lr"] = 0.001

    assert_close(handed_over(first, waiting, True, slower)[0], handed_over(adam, adam, True, slower)[0])


def test_an_interrupted_optimiser_goes_on_to_the_same_bits():
    whole = Small()
    optimiser = waiting(whole, 0.01)
    take(whole, optimiser, range(110))
    assert_close(handed_over(waiting, waiting, True)[0], numbers(whole, optimiser), rtol=0.0, atol=0.0)


def test_closing_leaves_rows_up_to_date_and_embeddings_as_they_were():
    dense, patient = Small(), Small()
    optimiser = waiting(patient)
    tables = [table for some in patient.tables.values() for table in some]
    take(dense, adam(dense), range(30))
    take(patient, optimiser, range(30))
    assert all(table.sparse for table in tables)
    assert not torch.allclose(patient.one.weight, dense.one.weight, rtol=1e-5, atol=2e-6)  # some rows still wait
    optimiser.close()
    assert_close(patient.state_dict(), dense.state_dict())
    assert not any(table.sparse for table in tables)
    patient.one(torch.tensor([3])).sum().backward()
    assert patient.one.weight.grad.layout == torch.strided


def test_gradients_of_several_batches_add_up_to_one_step():
    ends = []
    for make in (adam, waiting):
        model = Small()
        optimiser = make(model, 0.01)
        for rows in ([0, 1], [4, 1], [0, 0]):
            for some in (torch.tensor(rows), torch.tensor([2, rows[0]])):
                if make is waiting:
                    optimiser.catch_up(query=some, item=some)
                total = sum(
                    (table(some) * (some + 1.0).unsqueeze(1)).sum() for table in (model.one, model.two, model.item)
                )
                (total + model.weight.sum() + 2 * model.bias.sum()).backward()
            optimiser.step()
            optimiser.zero_grad()
        ends.append(numbers(model, optimiser))
    assert_close(*ends)


def test_lazy_rows_go_where_sparse_adam_takes_them():
    lazy, sparse = Small(), Small()
    take(lazy, waiting(lazy, missed="lazy"), range(STEPS))
    tables = [table for some in sparse.tables.values() for table in some]
    for table in tables:
        table.sparse = True
    take(sparse, torch.optim.SparseAdam([table.weight for table in tables], 0.02), range(STEPS))
    for name in ("one", "two", "item"):
        found, wanted = (getattr(model, name).weight.detach() for model in (lazy, sparse))
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6)
    assert torch.equal(lazy.one.weight[6], Small().one.weight[6])


def test_lazy_rows_are_those_of_a_loop_over_the_rows_touched():
    model, rate, decay, epsilon = Small(), 0.02, 0.03, 0.1
    optimiser = waiting(model, decay, rate, missed="lazy", eps=epsilon)
    weight = model.item.weight.detach().double().clone()
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(30):
        twin = nn.Parameter(torch.zeros_like(model.item.weight))
        other = Small()
        other.item.weight = twin
        take(other, torch.optim.SGD([twin], 1.0), [step])  # from 0, a step of 1 is minus the gradient
        for row in rows_of(step)["item"].unique().tolist():
            g = -twin.detach()[row].double() + decay * weight[row]
            m[row], v[row] = 0.9 * m[row] + 0.1 * g, 0.999 * v[row] + 0.001 * g * g
            size = m[row] / (1 - 0.9 ** (step + 1)) / ((v[row] / (1 - 0.999 ** (step + 1))).sqrt() + epsilon)
            weight[row] -= rate * size
        take(model, optimiser, [step])
    torch.testing.assert_close(model.item.weight.detach().double(), weight, rtol=1e-5, atol=2e-6)
    assert torch.equal(model.item.weight[5], Small().item.weight[5])


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.99), (0.5, 0.0), (0.95, 0.9999)])
def test_corrections_are_adams_until_they_are_1(betas):
    found = _corrections(betas).double()
    last = found.shape[1] - 1
    for t in {1, 2, 3, last // 2, last} - {0}:
        assert found[0, t].item() == pytest.approx(1 / (1 - betas[0] ** t), rel=1e-7)
        assert found[1, t].item() == pytest.approx(1 / math.sqrt(1 - betas[1] ** t), rel=1e-7)
    assert found[:, last].tolist() == [1.0, 1.0] == found[:, 0].tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"missed": "sometimes"}, "missed is 'sometimes'; expected"),
        ({"betas": (0.0, 0.999)}, "betas is .*; expected"),
        ({"betas": (0.9, 0.5)}, "betas is .*; expected"),
        ({"amsgrad": True}, "amsgrad is True; expected False"),
        ({"maximize": True}, "maximize is True; expected False"),
    ],
)
def test_what_rows_that_wait_cannot_do_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        waiting(Small(), **options)


def test_a_table_that_is_read_as_a_whole_is_refused():
    model = Small()
    optimiser = waiting(model)
    optimiser.catch_up(**rows_of(0))
    model.one.weight.sum().backward()
    with pytest.raises(RuntimeError, match=r"a table of shape \[8, 5\] has a dense gradient"):
        optimiser.step()
