"""On a GPU: recorded steps, kernels, rows that wait and compiled losses against the plain way."""

import copy
import statistics
from types import SimpleNamespace

import pytest
import torch

from songrank import SlateSampler, kernels
from songrank.data import prepare
from songrank.losses.registry import LOSSES
from songrank.models import NeuMF
from songrank.sampling.drawing import Drawing
from songrank.training.build import make_trainer
from songrank.training.checkpoints import Checkpoints, flatten, unflatten
from songrank.training.config.recipe import Recipe
from songrank.training.optim import registry
from songrank.training.optim.base import Adam
from songrank.training.optim.row_adam import RowAdam
from songrank.training.trainer import captured_step as steps
from songrank.training.trainer.captured_step import make_step
from songrank.training.trainer.stages import Stage
from songrank.training.trainer.step import Values
from tests.test_cuda import build, relevance
from tests.training.trainer.test_step import assert_same_step, clear_of_kinks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

needs_kernels = pytest.mark.skipif(
    torch.cuda.is_available() and not kernels.installed(), reason="kernels need Triton and a C compiler"
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return prepare("synthetic", None, tmp_path_factory.mktemp("data") / "set", queries=300, items=200, pairs=6000)


@pytest.fixture
def small_tables_wait(monkeypatch):
    """Rows of tables of any size wait, as those of large ones do."""
    monkeypatch.setattr(registry, "_LARGE", 1)


def recipe(stage=None, loss=None, dropout=0.0, every=0, queries=64, seed=0):
    """One stage of SONG: 5 steps an epoch, more pairs than items."""
    return Recipe.read(
        {
            "data": "x",
            "model": {"name": "neumf", "dim": 16, "dropout": dropout},
            "batch": {"queries": queries, "relevant": 5, "irrelevant": 30},
            "warm_up": {"epochs": 0},
            "loss": loss or {"name": "song"},
            "fine_tuning": {"epochs": 6, "learning_rate": 1e-3, **(stage or {})},
            "validation": {"every": every},
            "device": "cuda",
            "seed": seed,
        }
    )


def trained(what, dataset, speed="auto", **more):
    """A run to its end, without a word of warning."""
    warnings = []
    run = make_trainer(what, dataset, speed=speed, warn=warnings.append, **more)
    run.run()
    assert not warnings
    return run


def assert_alike(one, other, within=1e-2):
    """Runs that differ by rounding: it grows from step to step, and is far from what any mistake would do.

    Scores are compared, less their mean: what they all have in common has no gradient but rounding, and wanders.
    """
    losses_seen = [[line["loss"] for line in run.at.history] for run in (one, other)]
    assert losses_seen[0] == pytest.approx(losses_seen[1], rel=1e-3, abs=1e-5)
    query = torch.arange(one.model.num_queries, device=one.device)
    with torch.no_grad():
        scores = [run.model.eval().score_all(query) for run in (one, other)]
    wanted, found = (some - some.mean(1, keepdim=True) for some in scores)
    assert (found - wanted).norm() <= within * wanted.norm()


@needs_kernels
@pytest.mark.parametrize("options", [{}, {"relevant": "all", "irrelevant": 7}, {"k": 5, "seed": 2**31 - 1}])
def test_a_drawing_on_the_gpu_gives_the_cpus_slates(options):
    table = relevance()
    options = {"relevant": 10, "irrelevant": 300, "partial": "pad", **options}
    here, there = (SlateSampler(one, 64, **options) for one in (table, table.to("cuda")))
    drawing = Drawing(there)
    for _ in range(2):
        drawing.begin()
        for slate in here:
            drawn, real = drawing.next(), slate.mask.any(1)
            there.advance()
            for name in ("query", "item", "label", "list_size", "num_relevant", "ideal_dcg"):
                assert torch.equal(getattr(slate, name)[real], getattr(drawn, name).cpu()[real]), name
            for name in ("mask", "pair", "row_weight"):
                assert torch.equal(getattr(slate, name), getattr(drawn, name).cpu()), name
        assert here.state_dict() == there.state_dict()


@needs_kernels
@pytest.mark.parametrize("rows", [8, 16])  # fewer pairs than items, so that tables of items wait too; and more
@pytest.mark.parametrize("name", ["SONG", "KSONG"])
def test_from_each_of_200_states_a_recorded_step_is_a_plain_step(name, rows, small_tables_wait):
    table = relevance().to("cuda")
    adapter = SimpleNamespace(relevance=table, scores=lambda model, slate: model(slate.query, slate.item))
    torch.manual_seed(0)
    model = clear_of_kinks(NeuMF(300, 500, dim=8, hidden=(8,), dropout=0.0)).to("cuda")
    loss, k = build(name, table)
    ways = {}
    for speed, own in (("auto", model), ("plain", copy.deepcopy(model))):
        sampler = SlateSampler(table, rows, 5, 30, k=k, partial="pad")
        stage = Stage("fine-tuning", copy.deepcopy(loss).to("cuda"), sampler, 100, 1e-3, weight_decay=1e-4)
        optimiser = stage.make_optimiser(own, speed=speed)
        values = Values(table.device, 1000)
        step = make_step(own, adapter, stage, optimiser, values, False, speed=speed, warn=pytest.fail)
        ways[speed] = SimpleNamespace(model=own, stage=stage, optimiser=optimiser, step=step)
    fast, plain = ways["auto"], ways["plain"]
    assert isinstance(fast.optimiser, RowAdam)
    assert len(model.row_tables(rows * 35)) == (2 if rows == 8 else 1)
    assert type(plain.optimiser) is Adam
    done = 0
    while done < 200:
        recorded = fast.step.epoch()
        for _ in range(fast.stage.sampler.batches_left):
            plain.model.load_state_dict(fast.model.state_dict())
            plain.stage.loss.load_state_dict(fast.stage.loss.state_dict())
            plain.stage.sampler.load_state_dict(fast.stage.sampler.state_dict())
            plain.optimiser.resume(unflatten(*flatten(fast.optimiser.state_dict())))
            with kernels.plain():
                plain.step(next(iter(plain.stage.sampler)))
            next(recorded)
            # Sums of some hundred terms in any order: off by some 10⁻⁶ of the largest.
            assert_same_step((plain.model, plain.optimiser), (fast.model, fast.optimiser), share=2e-5)
            for key, value in plain.stage.loss.state_dict().items():
                torch.testing.assert_close(fast.stage.loss.state_dict()[key], value, rtol=1e-4, atol=1e-6, msg=key)
            done += 1
    assert fast.step.graph is not None


@pytest.mark.parametrize(
    "stage",
    [
        {"decay": {1: 0.3, 4: 0.5}, "weight_decay": 1e-6, "ema_decay": 0.5},
        {"weight_decay": 1e-4, "item_decay_power": 1.0},
        {"clip": 1e-3},
        {"optimiser": "sgd", "learning_rate": 1.0},
    ],
)
@pytest.mark.parametrize(("queries", "epochs"), [(64, 6), (5, 2)])  # more pairs than items, and fewer
def test_a_recorded_step_survives_rates_that_change_and_clipping(stage, queries, epochs, dataset, small_tables_wait):
    what = recipe({**stage, "epochs": epochs}, queries=queries)
    assert_alike(trained(what, dataset, "plain"), trained(what, dataset))


def test_rows_do_not_wait_where_gradients_are_clipped(dataset, small_tables_wait):
    for stage, waits in (({}, kernels.installed()), ({"clip": 1.0}, False)):
        run = make_trainer(recipe(stage), dataset)
        assert isinstance(run.stages[0].make_optimiser(run.model), RowAdam) == waits
        assert not isinstance(run.stages[0].make_optimiser(run.model, speed="plain"), RowAdam)


def test_evaluation_between_epochs_changes_nothing_in_training(dataset, small_tables_wait):
    stages = ({}, 0), ({}, 1), ({"ema_decay": 0.9}, 1)
    alone, *others = (trained(recipe(stage, every=every), dataset).at.history for stage, every in stages)
    for watched in others:
        assert [line["loss"] for line in watched] == pytest.approx([line["loss"] for line in alone], rel=1e-3)
        assert all("validation ndcg@10" in line for line in watched)


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
@pytest.mark.parametrize("stop_at", [2, 15, 18])  # before a graph is recorded, between epochs, in the midst of one
def test_a_recorded_run_goes_on_from_a_checkpoint(stop_at, optimiser, dataset, tmp_path, small_tables_wait):
    what = recipe({"optimiser": optimiser, "decay": {2: 0.1}, "ema_decay": 0.7})
    whole = trained(what, dataset)
    first = make_trainer(what, dataset, checkpoints=Checkpoints(tmp_path), tick=lambda: stop(first, stop_at))
    first.run()
    assert first.at.step == stop_at
    again = trained(what, dataset, checkpoints=Checkpoints(tmp_path))
    assert again.at.step == whole.at.step
    assert_alike(whole, again)


def stop(run, after):
    if run.at.step == after:
        run.stop()


@needs_kernels
def test_a_checkpoint_of_either_path_is_the_other_ones_too(dataset, tmp_path, small_tables_wait):
    what = recipe({"decay": {2: 0.1}})
    whole = trained(what, dataset)
    for begun, ended in (("auto", "plain"), ("plain", "auto")):
        kept = Checkpoints(tmp_path / begun)
        first = make_trainer(what, dataset, speed=begun, checkpoints=kept)
        first.tick = lambda run=first: stop(run, 13)
        first.run()
        assert_alike(whole, trained(what, dataset, ended, checkpoints=kept))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_model_that_looks_at_its_numbers_goes_the_plain_way_after_one_warning(dropout, dataset):
    def look(module, given):
        given[0].max().item()

    histories = []
    for speed in ("plain", "auto"):
        warnings = []
        run = make_trainer(recipe(dropout=dropout), dataset, speed=speed, warn=warnings.append)
        run.model.register_forward_pre_hook(look)
        run.run()
        histories.append([line["loss"] for line in run.at.history])
        assert len(warnings) == (speed == "auto")
    assert "cannot be captured as a CUDA graph" in warnings[0]
    assert "\n" not in warnings[0]
    assert histories[1][-1] < histories[1][0]
    if dropout == 0.0:  # kernels drop other cells
        assert histories[1] == pytest.approx(histories[0], rel=1e-3)


@needs_kernels
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_compiled_loss_trains_as_it_does_uncompiled(loss, dataset, monkeypatch):
    what = recipe({"epochs": 3}, {"name": loss, **({"k": 20} if loss.endswith("k-song") else {})})
    plain = trained(what, dataset)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    monkeypatch.setattr(steps, "_WORTH_COMPILING", 1)
    warnings = []
    compiled = make_trainer(what, dataset, warn=warnings.append)
    compiled.run()
    if loss == "gumbel-approx-ndcg" and warnings:  # torch 2.11 writes a kernel for it that Triton refuses
        assert "cannot be compiled" in warnings.pop()
    else:
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert not warnings
    # Of this one alone, weights that differ by 1e-7 at the start give scores that differ by 1 %, on a CPU too.
    assert_alike(plain, compiled, within=5e-2 if loss == "faster-k-song" else 1e-2)


def test_lazy_adam_trains_on_either_path(dataset):
    what = recipe({"optimiser": "lazy-adam", "learning_rate": 1e-2})
    plain, fast = trained(what, dataset, "plain"), trained(what, dataset)
    assert_alike(plain, fast)
    assert fast.at.history[-1]["loss"] < fast.at.history[0]["loss"]


@pytest.mark.parametrize("candidates", ["all", 50])
def test_evaluation_gives_the_same_values_with_kernels_and_without(candidates, dataset):
    run = make_trainer(recipe(dropout=0.2), dataset)
    torch.manual_seed(1)
    for parameter in run.model.parameters():
        torch.nn.init.normal_(parameter)
    run.model.eval()
    metrics = ["ndcg@10", "ndcg@50", "mrr", "recall@20"]
    found = run.adapter.evaluate(run.model, "validation", candidates, metrics=metrics).values
    with kernels.plain():
        wanted = run.adapter.evaluate(run.model, "validation", candidates, metrics=metrics).values
    assert found == pytest.approx(wanted, abs=1e-6)


def final_figures(dataset, speed, dropout, seeds):
    what = [recipe({"epochs": 12, "learning_rate": 5e-3}, dropout=dropout, every=12, seed=seed) for seed in seeds]
    return [trained(one, dataset, speed).at.history[-1]["validation ndcg@10"] for one in what]


def test_whole_runs_of_both_paths_agree_within_the_spread_of_seeds(dataset, small_tables_wait):
    plain, fast = (final_figures(dataset, speed, 0.0, range(3)) for speed in ("plain", "auto"))
    spread = max(plain) - min(plain)
    assert max(abs(one - other) for one, other in zip(plain, fast, strict=True)) <= spread


@needs_kernels
def test_whole_runs_with_the_kernels_own_dropout_agree_in_the_mean(dataset, small_tables_wait):
    plain, fast = (final_figures(dataset, speed, 0.2, range(4)) for speed in ("plain", "auto"))
    spread = statistics.mean([statistics.variance(plain), statistics.variance(fast)]) ** 0.5
    # Student's t with 6 degrees of freedom is beyond 5 once in 400 times.
    assert abs(statistics.mean(plain) - statistics.mean(fast)) <= 5 * spread * (2 / 4) ** 0.5


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_recorded_step_does_what_the_plain_one_does(loss, tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "data", queries=300, items=200, pairs=6000)
    runs = []
    for speed in ("plain", "auto"):
        warnings = []
        stage = {
            "epochs": 4,
            "learning_rate": 1e-3,
            "decay": {2: 0.5},
            "clip": None if loss.startswith("faster") else 5.0,
        }
        recipe = Recipe.read(
            {
                "data": "x",
                "model": {"name": "neumf", "dim": 16, "dropout": 0.0},
                "batch": {"queries": 64, "relevant": 5, "irrelevant": 30},
                "warm_up": {"epochs": 0},
                "loss": {"name": loss, **({"k": 20} if loss.endswith("k-song") else {})},
                "fine_tuning": stage,
                "device": "cuda",
            }
        )
        run = make_trainer(recipe, dataset, speed=speed, warn=warnings.append)
        run.run()
        assert not warnings
        runs.append(run)
    assert_alike(*runs)


@pytest.mark.parametrize(
    ("task", "model", "batch"),
    [
        ("search", {"name": "context-aware", "dim": 16, "dropout": 0.0}, {"queries": 8, "length": "all"}),
        ("search", {"name": "mlp", "hidden": [16]}, {"queries": 8, "length": 10}),
        ("labelling", {"name": "label-mlp", "hidden": [16]}, {"queries": 16, "relevant": "all", "irrelevant": "all"}),
        ("recommendation", {"name": "lightgcn", "scoring": "cosine", "learn_temperature": True}, {"queries": 16}),
        ("recommendation", {"name": "matrix-factorisation", "scoring": "cosine", "temperature": 0.2}, {"queries": 16}),
    ],
)
def test_a_recorded_step_serves_other_models_too(task, model, batch, tmp_path):
    dataset = prepare(
        "synthetic", None, tmp_path / "data", task=task, queries=100, items=1000 if task == "search" else 60
    )
    losses_seen = []
    for speed in ("plain", "auto"):
        warnings = []
        stage = {"epochs": 3, "learning_rate": 1e-3}
        recipe = Recipe.read(
            {
                "data": "x",
                "model": model,
                "batch": batch,
                "warm_up": stage,
                "fine_tuning": stage,
                "device": "cuda",
                "validation": {"every": 0},
            }
        )
        run = make_trainer(recipe, dataset, speed=speed, warn=warnings.append)
        run.run()
        assert not warnings
        losses_seen.append([line["loss"] for line in run.at.history])
    assert losses_seen[0] == pytest.approx(losses_seen[1], rel=2e-3)


def test_an_evaluation_after_recorded_steps_reads_the_new_graph_vectors(dataset):
    """A replayed graph changes weights without changing their versions."""
    told = recipe(every=1).model_copy(update={"model": {"name": "lightgcn"}})
    run = make_trainer(Recipe.read(told.model_dump()), dataset)
    run.run()
    with torch.no_grad():
        found = run.model.eval().score_all(torch.arange(20, device="cuda"))
        queries, items = run.model._propagated()
    torch.testing.assert_close(found, queries[:20] @ items.T, rtol=1e-3, atol=1e-4)
    values = [line["validation ndcg@10"] for line in run.at.history]
    assert len(set(values)) > 1
