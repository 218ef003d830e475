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


def scripted(run, values):
    """Validation gives these values in turn; return the weights at each evaluation."""
    left, kept = iter(values), []

    class Found:
        def __init__(self):
            self.values = {"ndcg@10": next(left)}
            kept.append({name: value.clone() for name, value in run.model.state_dict().items()})

    run.adapter.evaluate = lambda model, split, **policies: Found()
    return kept


@pytest.mark.parametrize(
    ("keep", "values", "best", "where"),
    [
        ("last", [0.6, 0.5, 0.1, 0.4, 0.3], 3, "fine-tuning, epoch 4 of 6"),
        ("all", [0.6, 0.5, 0.1, 0.4, 0.3], 0, "warm-up, epoch 2 of 4"),
        ("all", [0.6, 0.5, 0.1, 0.7, 0.3], 3, "fine-tuning, epoch 4 of 6"),
        ("all", [0.6, 0.5, 0.1, 0.6, 0.3], 0, "warm-up, epoch 2 of 4"),  # the first of equals
    ],
)
def test_the_result_is_the_best_checkpoint_of_the_last_stage_or_of_all(keep, values, best, where, dataset):
    run = trainer(dataset, keep=keep)
    kept = scripted(run, values)
    run.run()
    equal(run.model.state_dict(), kept[best])
    assert run.at.best == values[best]
    assert f"best checkpoint: {where} (step " in run.result()
    assert run.result().endswith(f"validation ndcg@10 {values[best]:.4f}")
    assert bool(run.better_before()) == (keep == "last")


def test_patience_counts_within_a_stage_also_if_an_earlier_one_was_better(dataset):
    run = trainer(dataset, keep="all", patience=2)
    scripted(run, [0.9, 0.8, 0.1, 0.2, 0.3])
    run.run()
    assert (run.at.best, run.at.best_of_stage, run.at.since_best) == (0.9, 0.3, 0)


def test_with_all_stages_a_stage_starts_from_the_best_checkpoint(dataset):
    run = trainer(dataset, keep="all", ema_decay=None)
    kept, begun = scripted(run, [0.6, 0.5, 0.1, 0.4, 0.3]), []
    make = run.stages[1].make_optimiser
    object.__setattr__(run.stages[1], "make_optimiser", lambda *how: begun.append(run.model.state_dict()) or make(*how))
    scores = run.adapter.scores

    def first_scores(model, slate):
        if begun and len(begun) == 1:
            begun.append({name: value.clone() for name, value in model.state_dict().items()})
        return scores(model, slate)

    run.adapter.scores = first_scores
    run.run()
    start = {name: value for name, value in begun[1].items() if not name.startswith("head")}
    equal(start, {name: value for name, value in kept[0].items() if not name.startswith("head")})


@pytest.mark.parametrize("stop_at", [8, 33, 77])
def test_all_stages_stopped_after_any_step_end_with_the_same_bits(stop_at, dataset, tmp_path):
    whole = trainer(dataset, keep="all")
    whole.run()

    def count():
        if run.at.step == stop_at:
            run.stop()

    run = trainer(dataset, tmp_path, keep="all", tick=count)
    run.run()
    assert run.stopped
    again = trainer(dataset, tmp_path, keep="all")
    again.run()
    equal(whole.model.state_dict(), again.model.state_dict())
    assert (whole.at.history, whole.result()) == (again.at.history, again.result())


def test_a_checkpoint_of_a_former_version_is_resumed(whole, dataset, tmp_path):
    run = trainer(dataset, tmp_path)
    run.tick = lambda: run.stop() if run.at.step == 77 else None
    run.run()
    step, state = run.checkpoints.latest()
    state["at"] = {name: value for name, value in state["at"].items() if name not in ("best_of_stage", "best_at")}
    run.checkpoints.save(step, state)
    again = trainer(dataset, tmp_path)
    again.run()
    equal(whole.model.state_dict(), again.model.state_dict())
