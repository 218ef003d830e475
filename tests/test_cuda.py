"""On a GPU: the same slates and numbers as on the CPU, and no transfer to the host in a step."""

import pytest
import torch

from songrank import KSONG, SONG, ListwiseCE, Relevance, SlateSampler, losses
from songrank.data import prepare
from songrank.losses.registry import LOSSES
from songrank.training.build import make_trainer
from songrank.training.recipe import Recipe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

LISTED = tuple(
    name
    for name in losses.__all__
    if name not in ("SONG", "KSONG", "ListwiseCE", "ListLoss", "MemoryLoss", "RankingLoss", "Rows")
)


def relevance():
    generator = torch.Generator().manual_seed(8)
    relevant = torch.rand(300, 500, generator=generator) < torch.rand(300, 1, generator=generator) * 0.3
    query, item = relevant.nonzero(as_tuple=True)
    label = torch.randint(1, 5, query.shape, generator=generator).float()
    return Relevance.from_pairs(query, item, label, num_queries=300, num_items=500)


def lists():
    generator = torch.Generator().manual_seed(9)
    lengths = torch.randint(1, 150, (200,), generator=generator)
    return Relevance.from_lists(torch.randint(0, 3, (int(lengths.sum()),), generator=generator).float(), lengths)


@pytest.mark.parametrize("options", [{}, {"irrelevant": "all"}, {"length": 40}, {"relevant": "all", "irrelevant": 7}])
@pytest.mark.parametrize("make", [relevance, lists])
def test_slates_are_equal_on_cpu_and_gpu(make, options):
    table = make()
    here, there = (
        SlateSampler(table, 64, seed=3, k=10, **options),
        SlateSampler(table.to("cuda"), 64, seed=3, k=10, **options),
    )
    for one, other in zip(here, there, strict=True):
        assert other.item.is_cuda
        for name in ("query", "item", "label", "mask", "pair", "column", "list_size", "num_relevant", "ideal_dcg"):
            assert torch.equal(getattr(one, name), getattr(other, name).cpu()), name


def build(name, table):
    if name == "KSONG":
        return KSONG(table.num_pairs, table.num_queries, 10), 10
    if name in ("SONG", "ListwiseCE"):
        return {"SONG": SONG, "ListwiseCE": ListwiseCE}[name](table.num_pairs), None
    return getattr(losses, name)(), None


@pytest.mark.parametrize("name", ["SONG", "KSONG", "ListwiseCE", *LISTED])
def test_a_step_makes_no_transfer_and_gives_the_cpus_numbers(name):
    table = relevance()
    here, k = build(name, table)
    there = build(name, table)[0].to("cuda")
    local, remote = SlateSampler(table, 64, seed=3, k=k), SlateSampler(table.to("cuda"), 64, seed=3, k=k)
    remote.order(0)
    scores = torch.randn(300, 500, generator=torch.Generator().manual_seed(1))
    on_gpu = scores.cuda()
    for one, other in zip(local, iter(remote), strict=True):
        leaf = scores[one.query].gather(1, one.item).requires_grad_()
        twin = on_gpu[other.query].gather(1, other.item).requires_grad_()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            slate = remote.draw(other.query, 0)
            there(twin, slate).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        here(leaf, one).backward()
        torch.testing.assert_close(
            twin.grad.cpu(), leaf.grad, rtol=2e-4, atol=1e-6
        )  # soft sorts add up hundreds of terms
    for (key, value), other in zip(here.state_dict().items(), there.state_dict().values(), strict=True):
        torch.testing.assert_close(other.cpu(), value, rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_recorded_step_does_what_the_plain_one_does(loss, tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "data", queries=300, items=200, pairs=6000)
    ends = []
    for speed in ("plain", "auto"):
        warnings = []
        stage = {"epochs": 4, "learning_rate": 1e-3, "decay": {2: 0.5}, "clip": 5.0}
        recipe = Recipe.read(
            {
                "data": "x",
                "model": {"name": "neumf", "dim": 16, "dropout": 0.0},
                "batch": {"queries": 64, "relevant": 5, "irrelevant": 30},
                "warm_up": {"epochs": 0},
                "loss": {"name": loss, **({"k": 20} if loss == "k-song" else {})},
                "fine_tuning": stage,
                "device": "cuda",
            }
        )
        run = make_trainer(recipe, dataset, speed=speed, warn=warnings.append)
        run.run()
        assert not warnings
        ends.append((run.at.history, run.model.state_dict()))
    for one, other in zip(ends[0][0], ends[1][0], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3, abs=1e-5)
    for name, value in ends[0][1].items():
        assert (value - ends[1][1][name]).norm() <= 1e-2 * value.norm(), name


@pytest.mark.parametrize(
    ("task", "model", "batch"),
    [
        ("search", {"name": "context-aware", "dim": 16, "dropout": 0.0}, {"queries": 8, "length": "all"}),
        ("search", {"name": "mlp", "hidden": [16]}, {"queries": 8, "length": 10}),
        ("labelling", {"name": "label-mlp", "hidden": [16]}, {"queries": 16, "relevant": "all", "irrelevant": "all"}),
    ],
)
def test_a_recorded_step_serves_lists_and_labels_too(task, model, batch, tmp_path):
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
