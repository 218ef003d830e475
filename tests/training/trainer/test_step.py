"""A step in which rows wait is a plain step: the same scores, gradients, weights and moments, whole runs included."""

import copy
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from songrank import KSONG, SONG, Relevance, SlateSampler
from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.models import MatrixFactorisation, NeuMF, TwoTower
from songrank.training.build import make_trainer
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from songrank.training.optim import registry
from songrank.training.optim.base import Adam
from songrank.training.optim.row_adam import RowAdam
from songrank.training.trainer.captured_step import make_step
from songrank.training.trainer.stages import Stage
from songrank.training.trainer.step import PlainStep, Values

MODELS = {
    "neumf": (lambda items: NeuMF(9, items, dim=5, hidden=(4,), dropout=0.0), ("product", "hidden")),
    "neumf, two layers": (lambda items: NeuMF(9, items, dim=5, hidden=(4, 3), dropout=0.0), ("product", "hidden")),
    "factors": (lambda items: MatrixFactorisation(9, items, dim=5), ("factors",)),
    "factors without bias": (lambda items: MatrixFactorisation(9, items, dim=5, bias=False), ("factors",)),
    "factors, cosine": (
        lambda items: MatrixFactorisation(9, items, 5, scoring="cosine", temperature=0.2, learn_temperature=True),
        ("factors",),
    ),
    "towers": (lambda items: TwoTower(9, items, dim=5, temperature=0.5), ("encoder",)),
    "towers, cosine": (lambda items: TwoTower(9, items, dim=5, similarity="cosine"), ("encoder",)),
}


def make_model(name, items):
    torch.manual_seed(0)
    model = MODELS[name][0](items).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize("items", [25, 24])
@pytest.mark.parametrize("name", MODELS)
def test_tables_of_queries_always_wait_and_those_of_items_where_few_are_read(name, items):
    model = make_model(name, items)
    found = {kind: [id(table) for table in some] for kind, some in model.row_tables(4 * 6).items()}
    kinds = ("query", "item") if items > 4 * 6 else ("query",)
    assert found == {kind: [id(getattr(model, f"{kind}_{part}")) for part in MODELS[name][1]] for kind in kinds}


@pytest.mark.parametrize(("items", "columns"), [(60, 6), (13, 6), (60, 1)])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_tables_that_wait_give_the_same_scores_and_gradients(name, shared, items, columns):
    generator = torch.Generator().manual_seed(1)
    query = torch.tensor([3, 0, 3, 8])
    item = torch.randint(items, (1 if shared else 4, columns), generator=generator)
    weight = torch.randn(4, columns, dtype=torch.float64, generator=generator)
    model, other = make_model(name, items), make_model(name, items)
    scores = model(query, item)
    (scores * weight).sum().backward()
    tables = other.row_tables(4 * columns)
    RowAdam([{"params": list(other.parameters())}], 0.1, tables).catch_up(query=query, item=item)
    found = other(query, item)
    torch.testing.assert_close(found, scores)
    (found * weight).sum().backward()
    for (key, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(two.grad.to_dense(), one.grad, msg=lambda text, key=key: f"{key}: {text}")
    for some in tables.values():
        for table in some:
            assert table.weight.grad.layout == torch.sparse_coo


# ---- one step from many states


def assert_same_step(plain, fast, share):
    """Weights and moments after one step of two paths are equal to what float32 allows.

    Gradients may differ by ``noise``: a share of the largest number of all that a tensor's gradient, weight decay
    included, and its m are made of. Then m may differ by (1 − β₁)·noise and √v by √(1 − β₂)·noise, and the weights by
    what these do to m / (√v + ε). So every number is compared, and the allowance is wide only where Adam divides next
    to nothing by next to nothing.

    Args:
        plain: a model and torch's Adam for it, after the step, gradients still there.
        fast: the other path's model and optimiser.
        share: how exact a gradient is.

    """
    (model, adam), (_, optimiser) = plain, fast
    names = {parameter: name for name, parameter in model.named_parameters()}
    states = (adam.state_dict()["state"], optimiser.state_dict()["state"])
    ordered = [(parameter, group) for group in adam.param_groups for parameter in group["params"]]
    others = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for at, ((one, group), two) in enumerate(zip(ordered, others, strict=True)):
        state, found = (some[at] for some in states)
        assert float(state["step"]) == float(found["step"])
        (beta1, beta2), t = group["betas"], float(state["step"])
        m, root = state["exp_avg"], state["exp_avg_sq"].sqrt()
        decayed = group["weight_decay"] * one.detach().abs().max()
        noise = share * (one.grad.abs().max() + decayed + m.abs().max())
        of_m, of_root = (1 - beta1) * noise, math.sqrt(1 - beta2) * noise
        first, second = 1 / (1 - beta1**t), 1 / math.sqrt(1 - beta2**t)
        below = torch.minimum(root, found["exp_avg_sq"].sqrt()) * second + group["eps"]
        moved = group["lr"] * first / below * (of_m + m.abs() * second * of_root / below)
        for name, wanted, got, allowed in (
            ("m", m, found["exp_avg"], of_m),
            ("√v", root, found["exp_avg_sq"].sqrt(), of_root),
            ("weight", one.detach(), two.detach(), moved + 1e-6 * group["lr"]),
        ):
            wrong = (wanted - got).abs() - (allowed + 1e-6 * wanted.abs())
            assert float(wrong.max()) <= 0, f"{names[one]} {name}: {float(wrong.max())} beyond rounding"


def clear_of_kinks(model):
    """The same NeuMF with hidden cells near ±1: near 0, rounding alone would turn a gradient on or off."""
    width = model.widths[0]
    with torch.no_grad():
        model.first.weight[:, model.dim :] = torch.eye(width, model.dim)
        model.item_hidden.weight.sign_()
    return model


def some_relevance(queries=60, items=40):
    generator = torch.Generator().manual_seed(2)
    query, item = (torch.rand(queries, items, generator=generator) < 0.15).nonzero(as_tuple=True)
    label = torch.randint(1, 4, query.shape, generator=generator).float()
    return Relevance.from_pairs(query, item, label, num_queries=queries, num_items=items)


@pytest.mark.parametrize(("name", "rows"), [("song", 4), ("k-song", 16)])  # fewer pairs than items, and more
def test_from_each_of_200_states_one_step_with_rows_that_wait_is_a_plain_step(name, rows):
    torch.manual_seed(3)
    relevance = some_relevance()
    pairs = relevance.num_pairs
    loss = SONG(pairs) if name == "song" else KSONG(pairs, relevance.num_queries, 5)
    sampler = SlateSampler(relevance, rows, 2, 6, k=loss.k, partial="pad")
    adapter = SimpleNamespace(relevance=relevance, scores=lambda model, slate: model(slate.query, slate.item))
    model = clear_of_kinks(NeuMF(60, 40, dim=6, hidden=(5,), dropout=0.0))
    stage = Stage("fine-tuning", loss, sampler, 1, 1e-3, weight_decay=1e-4)
    optimiser = stage.make_optimiser(model)
    assert type(optimiser) is Adam
    values = Values(relevance.device, 1000)
    parts = (model, adapter, stage, optimiser, values, False)
    step = make_step(*parts, speed="auto", warn=pytest.fail)
    assert type(step) is PlainStep
    done = 0
    while done < 200:
        for slate in sampler:
            twin, memory = copy.deepcopy(model), copy.deepcopy(loss)
            groups = [{**group, "params": list(some)} for group, some in by_group(optimiser, model, twin)]
            waiting = RowAdam(groups, 1e-3, twin.row_tables(rows * 8))
            if done:  # before the first step there is no state
                waiting.resume(copy.deepcopy(optimiser.state_dict()))
            step(slate)
            PlainStep(twin, adapter, replace(stage, loss=memory), waiting, values, False)(slate)
            assert_same_step((model, optimiser), (twin, waiting), share=1e-6)
            for key, value in loss.state_dict().items():
                torch.testing.assert_close(memory.state_dict()[key], value, rtol=1e-5, atol=1e-6)
            done += 1


def by_group(optimiser, model, twin):
    """An optimiser's groups with the twin's parameters in the place of the model's."""
    same = dict(zip(model.parameters(), twin.parameters(), strict=True))
    for group in optimiser.param_groups:
        yield {"weight_decay": group["weight_decay"]}, [same[parameter] for parameter in group["params"]]


# ---- whole runs


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return prepare("synthetic", None, tmp_path_factory.mktemp("data") / "set", queries=90, items=70, pairs=1200)


def recipe(optimiser="adam", **more):
    stage = {"learning_rate": 0.01, "weight_decay": 1e-4, "optimiser": optimiser}
    return Recipe.read(
        {
            "data": "x",
            "model": {"name": "neumf", "dim": 8, "hidden": [8], "dropout": 0.1},
            "batch": {"queries": 8, "relevant": 2, "irrelevant": 6},
            "warm_up": {"epochs": 2, **stage, **more},
            "fine_tuning": {"epochs": 5, "decay": {2: 0.1}, **stage},
            "validation": {"every": 2, "metric": "ndcg@10"},
            "device": "cpu",
        }
    )


@pytest.fixture
def all_tables_wait(monkeypatch):
    """What a GPU does with large tables, here with all of a model's."""
    monkeypatch.setattr(registry, "_may_defer", lambda speed, on_gpu: True)
    monkeypatch.setattr(registry, "deferred_tables", lambda stage, model: model.row_tables(64))
    monkeypatch.setattr(registry, "_tables", lambda stage, model, chosen: model.row_tables(64))


def stopped_after(run, steps):
    forward = run.adapter.scores

    def scores(model, slate):
        if run.at.step == steps - 1:
            run.stop()
        return forward(model, slate)

    run.adapter.scores = scores
    run.run()
    assert run.at.step == steps


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
def test_with_rows_that_wait_a_run_resumes_to_the_same_bits(optimiser, dataset, tmp_path, all_tables_wait):
    whole = make_trainer(recipe(optimiser), dataset)
    whole.run()
    assert whole.at.step == 7 * 12
    for stop_at in (1, 24, 57):  # at once, between the stages, in the midst of an epoch with a lower rate
        kept = tmp_path / str(stop_at)
        stopped_after(make_trainer(recipe(optimiser), dataset, checkpoints=Checkpoints(kept)), stop_at)
        again = make_trainer(recipe(optimiser), dataset, checkpoints=Checkpoints(kept))
        again.run()
        for key, value in whole.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[key], value), key
        assert again.at.history == whole.at.history


def test_a_run_in_which_rows_wait_ends_where_a_plain_one_ends(dataset, request):
    plain = make_trainer(recipe(), dataset)
    plain.run()
    request.getfixturevalue("all_tables_wait")
    waiting = make_trainer(recipe(), dataset)
    waiting.run()
    for one, other in zip(plain.at.history, waiting.at.history, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)
    with torch.no_grad():
        scores = [run.model.eval().score_all(torch.arange(90)) for run in (plain, waiting)]
    # Less what all of a query's scores have in common: that has no gradient but rounding, and wanders.
    wanted, found = (some - some.mean(1, keepdim=True) for some in scores)
    assert (found - wanted).norm() <= 1e-3 * wanted.norm()
    assert not any(module.sparse for module in waiting.model.modules() if isinstance(module, nn.Embedding))


def test_lazy_adam_is_chosen_by_a_recipe_and_learns(dataset):
    run = make_trainer(recipe("lazy-adam"), dataset)
    optimiser = run.stages[0].make_optimiser(run.model)
    assert isinstance(optimiser, RowAdam)
    assert optimiser.missed == "lazy"
    optimiser.close()
    untrained = run.evaluate("validation", metrics=["ndcg@10"]).values["ndcg@10"]
    run.run()
    assert run.at.history[-1]["validation ndcg@10"] > 2 * untrained
    plain = make_trainer(recipe(), dataset)
    plain.run()
    lazy, dense = (one.model.query_product.weight for one in (run, plain))
    assert not torch.allclose(lazy, dense, rtol=0.01)  # another algorithm


def test_lazy_adam_refuses_clipping_in_one_line():
    with pytest.raises(UserError, match="clip is 1.0; expected none with lazy-adam") as error:
        recipe("lazy-adam", clip=1.0)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="clip is 1.0; expected none with lazy-adam"):
        Stage("warm-up", SONG(0), SlateSampler(some_relevance()), 1, 0.1, optimiser="lazy-adam", clip=1.0)
