"""Packed histories give the scores, losses, gradients and memory of padded ones, in batches, parts and runs."""

import copy
from collections import Counter
from contextlib import nullcontext

import pytest
import torch

from songrank import Relevance
from songrank.core.csr import CSR
from songrank.data import open_dataset, prepare
from songrank.losses.registry import LOSSES
from songrank.models import SequenceModel
from songrank.sampling import SequenceSampler
from songrank.training.build import make_trainer
from songrank.training.config.components import make_component
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank.training.trainer import captured_shapes, history_adapters
from songrank.training.trainer.captured_shapes import CapturedShapes
from songrank.training.trainer.captured_step import make_step
from songrank.training.trainer.history_adapters import make_adapter
from songrank.training.trainer.stages import Stage
from songrank.training.trainer.step import PlainStep, Values

ITEMS, LENGTH, BATCH = 23, 9, 8
FORMS = {"by length": {}, "in bins": {"partial": "pad"}}
OPTIONS = {
    "plain": {},
    "end": {"positions": "end"},
    "none": {"positions": "none"},
    "relative": {"relative": True},
    "times": {"time_bias": True},
    "all": {"positions": "end", "relative": True, "time_bias": True, "gates": True, "embedding_norm": True},
    "cosine": {"scoring": "cosine", "temperature": 0.2, "learn_temperature": True},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """30 users with 3 to 25 events: some histories are longer than the model reads, many are short."""
    place = tmp_path_factory.mktemp("data") / "set"
    rows = [(u, (u * 7 + n * n) % ITEMS, n * (u + 3) ** 2) for u in range(30) for n in range(3 + (u * u) % 23)]
    columns = zip(("user", "item", "time"), zip(*rows, strict=True), strict=True)
    prepare("interactions", dict(columns), place, duplicates="keep")
    return place


def float64_model(options, **more):
    """A model in float64 with random values of all weights, also of those that start at 0."""
    torch.manual_seed(0)
    sizes = {"dim": 8, "blocks": 2, "heads": 2, "length": LENGTH, "dropout": 0.0, **more}
    model = SequenceModel(ITEMS, **sizes, **options).double().train()
    for name, parameter in model.named_parameters():
        if name != "log_temperature":
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def twins(adapter, batch=BATCH, form="by length", **options):
    """A padded sampler and a packed one of the same batches."""
    given = (adapter.users, adapter.histories, LENGTH, batch)
    options = {"targets": adapter.relevance, "windows": adapter.windows, "seed": 3, **options}
    return SequenceSampler(*given, **options), SequenceSampler(*given, **options, packed=True, **FORMS[form])


def assert_near(found, wanted, name=None):
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10, equal_nan=True, msg=name)


def compare(data, form, loss, options=None, windows="last", following=1, irrelevant="all", part=None):
    """Three steps of gradient descent from the same weights: losses, gradients and memory agree to 1e-10."""
    models = [float64_model(options or {})]
    models.append(copy.deepcopy(models[0]))
    adapter = make_adapter(open_dataset(data), model=models[0], windows=windows, following=following)
    values = {"name": loss, **({"k": 3} if loss.endswith("k-song") else {})}
    pairs = adapter.relevance
    sizes = {"num_pairs": pairs.num_pairs, "num_queries": pairs.num_queries, "seed": 0}
    sizes |= {"queries_per_batch": BATCH * LENGTH, "active_queries": pairs.num_queries}
    losses = [make_component("loss", values, sizes).double().train() for _ in models]
    k = losses[0].k
    samplers = twins(adapter, form=form, irrelevant=irrelevant, k=k)
    for _, *slates in zip(range(3), *map(iter, samplers), strict=False):
        found = []
        for model, own, slate in zip(models, losses, slates, strict=True):
            model.zero_grad()
            more = {}
            scores = adapter.scores(model, slate)
            if own.points:
                more = {"before" if own.points == 2 else "change": 0.9 * scores.detach()}
            value = own(scores, slate, **more)
            value.backward()
            found.append((value.detach(), own.objective(scores.detach(), slate)))
        assert (slates[0].packing, slates[1].packing.shared) == (None, form == "in bins")
        assert_near(found[1][0], found[0][0], "loss")
        assert_near(found[1][1], found[0][1], "objective")
        for (name, one), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
            assert_near(other.grad, one.grad, name)
            one.data -= 0.05 * one.grad
            other.data -= 0.05 * other.grad
        own, other = (loss.state_dict() for loss in losses)
        for name, held in own.items():
            if not name.startswith("last_"):  # of rows in the order of a batch, with padding
                assert_near(other[name], held, name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPTIONS)
def test_loss_and_gradients_of_every_model_are_those_of_padded_histories(data, name, form):
    compare(data, form, "song", OPTIONS[name])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("irrelevant", ["all", 6])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_has_the_same_steps(data, loss, irrelevant, form):
    compare(data, form, loss, irrelevant=irrelevant)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("following", [1, 3])
@pytest.mark.parametrize("windows", ["random", "sliding", "prefix"])
def test_every_kind_of_window_is_packed(data, windows, following, form):
    compare(data, form, "song", {"positions": "end", "time_bias": True}, windows, following)


@pytest.mark.parametrize("form", FORMS)
def test_dropout_drops_as_much(data, form):
    """The draws differ from those of padded histories; their share and the mean over draws do not."""
    model = float64_model({}, dropout=0.3)
    adapter = make_adapter(open_dataset(data), model=model)
    slates = [sampler.draw([3, 8, 0, 20]) for sampler in twins(adapter, form=form)]
    mean = [torch.stack([adapter.scores(model, slate)[:20] for _ in range(600)]).mean(0) for slate in slates]
    scale = adapter.scores(model, slates[0])[:20].std()
    assert float(((mean[0] - mean[1]).abs().mean() / scale).detach()) < 0.1


def test_padding_rows_have_no_weight(data):
    adapter = make_adapter(open_dataset(data), model=float64_model({}))
    _, sampler = twins(adapter, batch=4, form="in bins", irrelevant=6)
    padding = 0
    for _ in range(5):
        for slate in sampler:
            assert torch.equal(slate.rows_present, slate.real)
            assert bool((slate.pair[~slate.real] == -1).all())
            assert not bool(slate.mask[~slate.real].any())
            padding += int((~slate.real).sum())
    assert padding > 0


def test_batches_of_many_short_histories_have_few_shapes():
    lengths = torch.randn(6000, generator=torch.Generator().manual_seed(0)).exp().mul(3).long().clamp(0, 150) + 5
    item = torch.arange(int(lengths.sum())) % 500
    histories = CSR.from_lengths(lengths, item=item, label=torch.ones(item.shape[0]))
    pairs = torch.stack([histories.row_of_entries(), item]).unique(dim=1)
    relevance = Relevance.from_pairs(*pairs, num_queries=len(lengths), num_items=500)
    sampler = SequenceSampler(relevance, histories, 200, 256, packed=True, partial="pad")
    shapes, rows, held = Counter(), 0, 0
    for _ in range(2 * len(sampler)):
        plan = sampler.plan()
        shapes[plan.shape] += 1
        rows, held = rows + plan.rows, held + plan.shape.rows
        sampler.advance()
    assert len(shapes) <= 8
    assert held <= 1.13 * rows


def test_a_plan_gives_the_slate_that_iteration_gives(data):
    adapter = make_adapter(open_dataset(data), model=float64_model({}))
    _, sampler = twins(adapter, form="in bins", irrelevant=6)
    _, planned = twins(adapter, form="in bins", irrelevant=6)
    for slate in sampler:
        made = planned.expanded(planned.plan())
        planned.advance()
        for name in ("query", "item", "label", "mask", "pair", "begin", "count", "row", "place", "real"):
            assert torch.equal(getattr(slate, name), getattr(made, name)), name
    assert planned.state_dict() == sampler.state_dict()


@pytest.mark.parametrize("at_once", [None, 40])
def test_steps_by_shape_are_the_plain_steps(data, at_once):
    """On a CPU without graphs: whole batches, and batches above the limit of rows in parts."""
    models = [float64_model({})]
    models.append(copy.deepcopy(models[0]))
    adapter = make_adapter(open_dataset(data), model=models[0])
    steps = []
    for model, sampler in zip(models, twins(adapter, form="in bins"), strict=True):
        loss = make_component("loss", {"name": "song"}, {"num_pairs": adapter.relevance.num_pairs}).double()
        stage = Stage("fine-tuning", loss, sampler, 4, 0.1, optimiser="sgd", at_once=at_once)
        values = Values(torch.device("cpu"), len(sampler))
        parts = (model, adapter, stage, stage.make_optimiser(model), values, "float32")
        steps.append(make_step(*parts, speed="auto", warn=pytest.fail))
    assert isinstance(steps[1], CapturedShapes)
    assert isinstance(steps[0], PlainStep)
    assert not isinstance(steps[0], CapturedShapes)
    for _ in range(3):
        for step in steps:
            step.values.begin()
        for _ in zip(steps[0].epoch(), steps[1].epoch(), strict=True):
            pass
        assert steps[1].objective() == pytest.approx(steps[0].objective(), rel=1e-9)
        torch.testing.assert_close(steps[1].values.kept, steps[0].values.kept)
    for (name, one), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-7, atol=1e-8, msg=name)


class Replayed:
    """A graph on a CPU: a replay repeats the work on the tensors of the capture, with new gradients."""

    def __init__(self, run, optimiser):
        self.run, self.optimiser = run, optimiser

    def replay(self):
        self.optimiser.zero_grad()
        self.run()


def test_a_graph_per_shape_reads_the_numbers_of_each_batch(data, monkeypatch):
    captured, pools = [], []

    def record(run, optimiser, pool):
        pools.append(pool)
        step.last = (torch.zeros(()), None)  # set by a capture, which computes nothing
        captured.append(run)
        return Replayed(run, optimiser)

    monkeypatch.setattr(captured_shapes, "_captured", record)
    monkeypatch.setattr(captured_shapes, "side_stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, len(pools)))
    models = [float64_model({})]
    models.append(copy.deepcopy(models[0]))
    adapter = make_adapter(open_dataset(data), model=models[0], windows="random")
    found = []
    for model in models:
        sampler = twins(adapter, form="in bins")[1]
        loss = make_component("loss", {"name": "song"}, {"num_pairs": adapter.relevance.num_pairs}).double()
        stage = Stage("fine-tuning", loss, sampler, 30, 0.1, {15: 0.5}, optimiser="sgd")
        values = Values(torch.device("cpu"), len(sampler))
        step = make_step(
            model, adapter, stage, stage.make_optimiser(model), values, "float32", speed="auto", warn=print
        )
        step.possible = model is models[1]
        for epoch in range(30):
            for group in step.optimiser.param_groups:
                group["lr"] = stage.rate(epoch)
            values.begin()
            for _ in step.epoch():
                pass
            found.append(values.total())
    assert found[:30] == found[30:]
    assert len(step.graphs) < len(captured) < sum(step.seen.values()) / 3
    assert len(set(pools)) == 2  # one per learning rate
    for (name, one), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other), name


def recipe(data, **changes):
    values = {
        "data": str(data),
        "model": {"name": "sequence", "dim": 8, "blocks": 1, "heads": 1, "length": LENGTH, "dropout": 0.2},
        "batch": {"queries": BATCH, "irrelevant": "all", "windows": "random"},
        "warm_up": {"epochs": 3, "learning_rate": 0.01, "loss": "softmax"},
        "fine_tuning": {"epochs": 3, "learning_rate": 1e-3},
        "loss": {"name": "k-song", "k": 5},
        "validation": {"metric": "ndcg@5", "every": 2},
        "device": "cpu",
    }
    return Recipe.read({**values, **changes})


def test_runs_are_packed_unless_speed_is_plain(data):
    dataset = open_dataset(data)
    for speed, packed in (("auto", True), ("plain", False)):
        trainer = make_trainer(recipe(data), dataset, speed=speed)
        assert [stage.sampler.packed for stage in trainer.stages] == [packed] * 2
        assert (next(iter(trainer.stages[0].sampler)).packing is not None) == packed


def test_a_run_without_dropout_is_the_plain_run(data):
    dataset, model = open_dataset(data), {**recipe(data).model, "dropout": 0.0}
    stage = {"epochs": 3, "learning_rate": 0.1, "optimiser": "sgd"}
    given = recipe(data, model=model, warm_up={**stage, "loss": "softmax"}, fine_tuning=stage)
    runs = [make_trainer(given, dataset, speed=speed) for speed in ("plain", "auto")]
    for run in runs:
        run.run()
    for (name, one), other in zip(runs[0].model.named_parameters(), runs[1].model.parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("few_bytes", [False, True])
def test_a_packed_run_resumes_to_the_same_bits(data, tmp_path, monkeypatch, few_bytes):
    if few_bytes:  # batches in parts
        monkeypatch.setattr(history_adapters, "_SLATE_BYTES", 3 * 4 * LENGTH * ITEMS)
    pad = history_adapters.SequenceAdapter.sampler

    def in_bins(self, batch, **options):
        return pad(self, batch, partial="pad", **options)

    monkeypatch.setattr(history_adapters.SequenceAdapter, "sampler", in_bins)
    whole = Run.begin(recipe(data), tmp_path / "whole")
    assert whole.trainer.stages[0].sampler.few_shapes
    assert whole.finish()
    stopped = Run.begin(recipe(data), tmp_path / "stopped")
    for step in (2, 9, 17):
        stopped.trainer.tick = lambda trainer=stopped.trainer, step=step: (
            trainer.stop() if trainer.at.step == step else None
        )
        assert not stopped.finish()
        stopped = Run.resume(tmp_path / "stopped")
    assert stopped.finish()
    assert stopped.trainer.at.history == whole.trainer.at.history
    for name, weight in whole.trainer.model.state_dict().items():
        assert torch.equal(weight, stopped.trainer.model.state_dict()[name]), name
