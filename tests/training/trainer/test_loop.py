"""Training ends with the same bits however often it is stopped, and says when it cannot go on."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from songrank.training.trainer.loop import DivergedError
from tests.training.small_run import trainer
from tests.training.trainer.small_loop import equal

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def whole(dataset):
    run = trainer(dataset)
    run.run()
    return run


def test_it_learns_something_that_popularity_does_not_know(whole):
    history = whole.at.history
    assert [line["stage"] for line in history] == ["warm-up"] * 4 + ["fine-tuning"] * 6
    assert history[-1]["validation ndcg@10"] > 0.1
    assert whole.at.step == 10 * len(whole.stages[0].sampler)


@pytest.mark.parametrize("stop_at", [1, 8, 32, 33, 77, 80])
def test_stopped_after_any_step_it_ends_with_the_same_bits(stop_at, whole, dataset, tmp_path):
    first = trainer(dataset, tmp_path)
    forward = first.adapter.scores

    def scores(model, slate):
        if first.at.step == stop_at - 1:
            first.stop()
        return forward(model, slate)

    first.adapter.scores = scores
    first.run()
    assert first.at.step == stop_at
    second = trainer(dataset, tmp_path)
    second.run()
    equal(whole.model.state_dict(), second.model.state_dict())
    assert second.at.history == whole.at.history


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_for_real_at_random_moments_it_ends_with_the_same_bits(number, whole, dataset, tmp_path):
    rng = random.Random(int(number))
    command = [sys.executable, "-m", "tests.training.small_run", str(dataset), str(tmp_path / "c"), str(tmp_path / "w")]
    for attempt in range(12):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(rng.randint(1, 3)):
            process.stdout.readline()
        if attempt < 3:
            process.send_signal(number)
        process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == (-9 if number == signal.SIGKILL else 143)
    state, history = torch.load(tmp_path / "w")
    equal(whole.model.state_dict(), state)
    assert history == whole.at.history
    assert not [name for name in os.listdir(tmp_path / "c") if name.startswith(".") and number == signal.SIGTERM]


def test_a_damaged_checkpoint_costs_nothing_but_time(whole, dataset, tmp_path):
    run = trainer(dataset, tmp_path, save_every=0.0)
    run.run()
    for name in sorted(os.listdir(tmp_path))[-1:]:
        (tmp_path / name / "tensors.safetensors").write_bytes(b"")
    again = trainer(dataset, tmp_path, save_every=0.0)
    again.run()
    equal(whole.model.state_dict(), again.model.state_dict())


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_last_good_checkpoint(dataset, tmp_path):
    run = trainer(dataset, tmp_path, save_every=0.0)
    forward = run.adapter.scores
    run.adapter.scores = lambda model, slate: forward(model, slate) * (float("nan") if run.at.step == 20 else 1.0)
    with pytest.raises(DivergedError, match="step 21 in warm-up: ListwiseCE is NaN or infinite; the last checkpoint"):
        run.run()
    assert run.checkpoints.latest()[1]["at"]["step"] <= 20


def test_patience_ends_a_stage_and_the_best_state_is_the_result(dataset):
    run = trainer(dataset, patience=1)
    values = iter([0.5, 0.4, 0.3, 0.9, 0.8])
    kept = []

    class Found:
        def __init__(self):
            self.values = {"ndcg@10": next(values)}
            kept.append({name: value.clone() for name, value in run.model.state_dict().items()})

    run.adapter.evaluate = lambda model, split, **policies: Found()
    run.run()
    assert [line["validation ndcg@10"] for line in run.at.history if "validation ndcg@10" in line] == [
        0.5,
        0.4,
        0.3,
        0.9,
        0.8,
    ]
    equal(run.model.state_dict(), kept[3])
