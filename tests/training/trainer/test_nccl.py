"""On a GPU: the captured step with the sum over processes inside the graph, on NCCL with one process; and two processes
of gloo on the same GPU, which run the plain step."""

import gc
import json
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist

from songrank import kernels
from songrank.core.processes import Processes
from songrank.data import prepare
from songrank.sampling import SharedBatches
from songrank.training.build import make_trainer
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from songrank.training.optim import registry
from songrank.training.optim.row_adam import RowAdam
from songrank.training.trainer.captured_step import CapturedStep, make_step
from songrank.training.trainer.own_rows import OwnRows
from songrank.training.trainer.shard import Reduction
from songrank.training.trainer.step import PlainStep
from tests.processes import run_songrank

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not dist.is_nccl_available(), reason="needs an NVIDIA GPU and NCCL"
)

QUERIES, ITEMS = 300, 200
CASES = {
    "song": {},
    "song, learning rate decay": {"fine_tuning": {"decay": {1: 0.3, 4: 0.5}, "ema_decay": 0.5}},
    "k-song, clip": {"loss": {"name": "k-song", "k": 5}, "fine_tuning": {"clip": 1e-3}},
    "faster song": {"loss": {"name": "faster-song"}},
    "all items": {"batch": {"queries": 64, "irrelevant": "all"}},
    "sgd": {"fine_tuning": {"optimiser": "sgd", "learning_rate": 1.0}},
}


@dataclass(frozen=True)
class OneOfNccl(Processes):
    """One process that sums as several do."""

    backend: str = "nccl"

    def add(self, tensor):
        CALLS.append(tensor.numel())
        dist.all_reduce(tensor)
        return tensor


CALLS = []
"""The sizes of the sums for which Python was needed."""


@pytest.fixture(scope="module", autouse=True)
def group():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield
    gc.collect()  # NCCL waits for all graphs with its sums before it ends
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    place = tmp_path_factory.mktemp("data") / "set"
    return prepare("synthetic", None, place, queries=QUERIES, items=ITEMS, pairs=6000)


def recipe(case="song", epochs=6, **more):
    sections = {
        "data": "x",
        "model": {"name": "neumf", "dim": 16, "dropout": 0.0},
        "batch": {"queries": 64, "relevant": 5, "irrelevant": 30},
        "warm_up": {"epochs": 0},
        "loss": {"name": "song"},
        "fine_tuning": {"epochs": epochs, "learning_rate": 1e-3},
        "validation": {"every": 0},
        "device": "cuda",
    }
    for name, section in CASES[case].items():
        sections[name] = {**sections[name], **section} if name == "fine_tuning" else section
    return Recipe.read(sections | more)


def as_one_of_several(run, own=(0, QUERIES), rows=None):
    """Let a run sum its gradients with NCCL, over the batches of all queries, of which it has a range."""
    run._reduction = Reduction(OneOfNccl(), run.model, rows or OwnRows())
    for stage in run.stages:
        sampler = stage.sampler
        sampler.partial, sampler.shared = "short", SharedBatches(sampler._queries.clone(), own)
        sampler._width = sampler.shared.width(sampler.queries_per_batch)
    return run


def trained(what, dataset, speed="auto", own=(0, QUERIES), alone=False, **more):
    warnings = []
    run = make_trainer(what, dataset, speed=speed, warn=warnings.append, **more)
    run = run if alone else as_one_of_several(run, own)
    run.run()
    assert not warnings
    return run


def assert_alike(one, other):
    """Runs that differ by rounding; scores are compared without what all items have in common."""
    losses = [[line["loss"] for line in run.at.history] for run in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3, abs=1e-5)
    objectives = [[line["objective"] for line in run.at.history] for run in (one, other)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-2, abs=1e-4)
    query = torch.arange(QUERIES, device=one.device)
    with torch.no_grad():
        scores = [run.model.eval().score_all(query) for run in (one, other)]
    wanted, found = (some - some.mean(1, keepdim=True) for some in scores)
    assert (found - wanted).norm() <= 1e-2 * wanted.norm()


@pytest.mark.parametrize("case", CASES)
def test_a_captured_step_with_its_sum_is_the_plain_one(case, dataset):
    what = recipe(case)
    alone = trained(what, dataset, "plain", alone=True)
    plain = trained(what, dataset, "plain")
    assert plain.step_kind == "plain"
    assert len(CALLS) >= plain.at.step
    CALLS.clear()
    captured = trained(what, dataset)
    assert captured.step_kind == "captured"
    assert captured.at.step == plain.at.step == alone.at.step
    assert len(CALLS) < captured.at.step  # most steps were replays
    assert_alike(alone, plain)
    assert_alike(plain, captured)
    assert captured.bytes_per_step == plain.bytes_per_step > 0


@pytest.mark.parametrize("own", [(0, 150), (280, 300)])
@pytest.mark.parametrize("case", ["song", "k-song, clip", "all items"])
def test_batches_of_which_other_processes_have_the_rest_are_padded(case, own, dataset):
    what = recipe(case)
    plain, captured = (trained(what, dataset, speed, own) for speed in ("plain", "auto"))
    assert captured.step_kind == "captured"
    assert captured.stages[0].sampler.rows_here < 64
    assert_alike(plain, captured)


def test_an_epoch_with_a_batch_that_is_too_large_runs_eagerly(dataset):
    what = recipe(epochs=8)
    plain = trained(what, dataset, "plain", (0, 150))
    run = as_one_of_several(make_trainer(what, dataset, warn=pytest.fail), (0, 150))
    sampler = run.stages[0].sampler
    most = [max(slate.query.shape[0] for slate in run.stages[0].sampler) for _ in range(8)]
    sampler.load_state_dict({"seed": sampler.seed, "epoch": 0, "position": 0})
    sampler._width = max(most) - 1
    fits = [sampler.fits(epoch) for epoch in range(8)]
    assert any(fits)
    assert not all(fits)
    run.run()
    assert run.step_kind == "captured"
    assert_alike(plain, run)


@pytest.mark.skipif(torch.cuda.is_available() and not kernels.installed(), reason="kernels need Triton")
@pytest.mark.parametrize(("large", "kind"), [(QUERIES * 16, CapturedStep), (1, PlainStep)])
def test_rows_of_this_process_may_wait_in_a_captured_step_but_not_shared_ones(large, kind, dataset, monkeypatch):
    """The sum over processes of sparse gradients has no fixed size."""
    monkeypatch.setattr(registry, "_LARGE", large)
    # Fewer pairs than items, so that rows of items may wait too.
    what, runs = recipe(epochs=2, batch={"queries": 5, "relevant": 5, "irrelevant": 30}), []
    for speed in ("plain", "auto"):
        run = make_trainer(what, dataset, speed=speed, warn=pytest.fail)
        rows = OwnRows(run.model.capabilities.query_tables, (0, QUERIES), QUERIES)
        run = as_one_of_several(run, rows=rows)
        runs.append(run)
    stage = runs[1].stages[0]
    optimiser = stage.make_optimiser(runs[1].model)
    assert isinstance(optimiser, RowAdam)
    parts = (runs[1].model, runs[1].adapter, stage, optimiser, runs[1]._values, "float32")
    assert type(make_step(*parts, speed="auto", warn=pytest.fail, reduction=runs[1]._reduction)) is kind
    optimiser.close()
    for run in runs:
        run.run()
    assert runs[1].step_kind == ("captured" if kind is CapturedStep else "plain")
    assert_alike(*runs)


def test_a_captured_run_stops_and_resumes(dataset, tmp_path):
    what = recipe(epochs=40)
    whole = trained(what, dataset)
    first = as_one_of_several(make_trainer(what, dataset, checkpoints=Checkpoints(tmp_path)))
    first.tick = lambda: first.stop() if first.at.step == 62 else None
    first.run()
    assert first.stopped
    assert 62 <= first.at.step <= 62 + 3 * 16  # decisions are read after 16 steps
    again = trained(what, dataset, checkpoints=Checkpoints(tmp_path))
    assert again.at.step == whole.at.step
    assert_alike(whole, again)


def test_a_step_that_cannot_be_captured_runs_eagerly(dataset):
    warnings = []
    run = as_one_of_several(make_trainer(recipe(), dataset, warn=warnings.append))

    def read(module, given):
        given[0].max().item()

    run.model.register_forward_pre_hook(read)
    run.run()
    assert len(warnings) == 1
    assert "cannot be captured as a CUDA graph" in warnings[0]
    assert run.step_kind == "plain"
    assert_alike(trained(recipe(), dataset, "plain"), run)


def test_two_processes_on_one_gpu_train_what_one_does(dataset, tmp_path, songrank):
    changes = ["model.dim=8", "model.dropout=0", "batch.queries=64", "batch.irrelevant=30", "device=cuda"]
    changes += ["warm_up.epochs=1", "fine_tuning.epochs=3", "fine_tuning.learning_rate=0.001"]
    words = ["train", "neumf", f"data={dataset.path}", *changes, "-o"]
    ended = run_songrank(2, *words, tmp_path / "two", limit=240)
    assert [done.returncode for done in ended] == [0, 0], ended[0].stderr
    assert songrank(*words, tmp_path / "one").returncode == 0
    notes = json.loads((tmp_path / "two" / "run.json").read_text())
    assert (notes["processes"], notes["backend"], notes["step_kind"]) == (2, "gloo", "plain")
    losses = [
        [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
