"""Recipes with a model of sets of items: what it reads in each split, every loss, and a run that is killed."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from songrank.analysis.evaluate import evaluate_run
from songrank.data import open_dataset, prepare
from songrank.losses.registry import LOSSES
from songrank.models import HistoryModel
from songrank.training.build import make_trainer
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from songrank.training.trainer.history_adapters import make_adapter

ITEMS, KINDS = 30, 3
SMALL = ["model.dim=8", "batch.queries=16", "batch.relevant=3", "batch.irrelevant=10", "device=cpu"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """60 users, each with 8 items of one of three kinds, in an order that says nothing."""
    place = tmp_path_factory.mktemp("data") / "set"
    generator = torch.Generator().manual_seed(0)
    rows = []
    for user in range(60):
        own = torch.arange(user % KINDS, ITEMS, KINDS)
        rows += [(f"u{user:02}", int(item)) for item in own[torch.randperm(len(own), generator=generator)[:8]]]
    prepare("interactions", dict(zip(("user", "item"), zip(*rows, strict=True), strict=True)), place)
    return place


def recipe(data, *changes):
    return load_recipe("histories", [f"data={data}", *SMALL, *changes])


def test_the_shipped_recipe_learns_what_goes_together(data, tmp_path):
    run = Run.begin(recipe(data, "warm_up.learning_rate=0.02", "fine_tuning.epochs=2"), tmp_path / "run")
    assert run.finish()
    found = run.results["test"].values["ndcg@10"]
    assert found > 0.6  # one of three items of the kind that are left; one of 23 by chance has .2
    assert evaluate_run(tmp_path / "run", device="cpu").values["ndcg@10"] == found


def test_each_split_reads_what_was_before_it(data):
    dataset = open_dataset(data)
    feed = make_adapter(dataset, model=HistoryModel(ITEMS, dim=4, length=50))
    users = torch.arange(60)
    before = []
    for split, earlier in (("train", ["train"]), ("validation", ["train"]), ("test", ["train", "validation"])):
        rows = feed.queries(split, users)
        for user, row in enumerate(rows.tolist()):
            parts = [dataset[name] for name in earlier]
            want = torch.cat([part.item[part.offsets[user] : part.offsets[user + 1]] for part in parts])
            assert sorted(item for item in row if item >= 0) == sorted(want.tolist())
        before.append(rows.shape[1])
    assert before == [6, 6, 7]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains_it(data, loss):
    options = ["loss.k=3"] if loss.endswith("k-song") else []
    told = recipe(data, f"loss={loss}", *options, "warm_up.epochs=0", "fine_tuning.epochs=2", "validation.every=0")
    trainer = make_trainer(told, open_dataset(data))
    before = trainer.model.item_read.weight.clone()
    trainer.run()
    assert not torch.equal(before, trainer.model.item_read.weight)
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


def test_killed_for_real_and_gone_on_with_it_ends_with_the_same_bits(data, tmp_path, songrank):
    told = [f"data={data}", *SMALL, "warm_up.epochs=4", "fine_tuning.epochs=150", "validation.every=20"]
    assert songrank("train", "histories", *told, "-o", tmp_path / "whole", "-q").returncode == 0
    command = [sys.executable, "-m", "songrank.cli", "train", "histories", *told, "-o", tmp_path / "run", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    for _ in range(7):  # the second stage is under way
        assert process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -9
    assert songrank("train", "--resume", tmp_path / "run", "-q").returncode == 0
    for file in ("model.safetensors", "histories.safetensors", "evaluation/test.json"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_strangers_are_answered_by_what_they_bring(data, tmp_path, songrank):
    told = [f"data={data}", *SMALL, "warm_up.learning_rate=0.02", "fine_tuning.epochs=1"]
    assert songrank("train", "histories", *told, "-o", tmp_path / "run", "-q").returncode == 0
    (tmp_path / "new.csv").write_text("user,item\nann,0\nann,9\nbob,4\nbob,19\n")
    done = songrank(
        "recommend", tmp_path / "run", "--histories", tmp_path / "new.csv", "-k", "4", "-o", tmp_path / "out.csv"
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    kinds = {"ann": 0, "bob": 1}
    right = [int(line[1]) % KINDS == kinds[line[0]] for line in lines]
    assert len(lines) == 8
    assert sum(right) >= 7
    assert not {("ann", "0"), ("ann", "9"), ("bob", "4"), ("bob", "19")} & {(line[0], line[1]) for line in lines}
