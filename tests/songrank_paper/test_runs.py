"""Training runs of experiment cells."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from songrank.core.errors import UserError
from songrank_paper import runs
from songrank_paper.cells import do_cell
from songrank_paper.methods import Setting
from songrank_paper.protocol import SetProtocol, waiting
from tests.songrank_paper.small_training import SONG, TINY, done, plan


def what_is_kept(cell, folder):
    """All that a run comes to, bit by bit."""
    run = folder / cell.key / "run"
    history = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return load_file(run / "model.safetensors"), history, load_file(run / "evaluation" / "test.safetensors")


def assert_same(one, other):
    assert one[1] == other[1]
    for first, second in ((one[0], other[0]), (one[2], other[2])):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("loss", ["song", "k-song", "gumbel-approx-ndcg"])
def test_a_run_that_begins_with_the_common_warm_up_is_the_run_that_makes_it_itself(each, tmp_path, loss):
    k = ["loss.k=5"] if loss == "k-song" else []
    training = each.run(Setting((f"loss={loss}",)), 3, *k)
    alone = each.cell("alone", training.cell.work, **{**training.cell.options, "after": None})
    done(training.after, tmp_path)
    shared, own = done(training.cell, tmp_path), done(alone, tmp_path)
    assert_same(what_is_kept(training.cell, tmp_path), what_is_kept(alone, tmp_path))
    assert {**shared, "seconds": 0} == {**own, "seconds": 0}
    assert shared["warm_up"][-1][0] == 2
    assert [epoch for epoch, _ in shared["curve"]] == [1, 2, 3]


def test_a_run_without_warm_up_waits_for_none(each):
    training = each.run(SONG, 0, "warm_up.epochs=0")
    assert training.after is None
    assert waiting([training], {}) == [training.cell]


def test_a_warm_up_that_was_lost_is_said_in_one_line(each, tmp_path):
    training = each.run(SONG, 0)
    with pytest.raises(UserError, match="has no warm-up; delete its experiment cell"):
        do_cell(training.cell, tmp_path / training.cell.key)


@pytest.mark.parametrize("lost", [False, True])
def test_a_cell_that_was_killed_goes_on_to_the_same_bits(each, tmp_path, monkeypatch, lost):
    training = each.run(SONG, 1, "batch.irrelevant=all")
    for place in ("whole", "killed"):
        done(training.after, tmp_path / place)
    done(training.cell, tmp_path / "whole")

    def killed_after_one_epoch(run, metric):
        def observe(line):
            if line["stage"] == "fine-tuning":
                raise KeyboardInterrupt

        return observe

    with monkeypatch.context() as patch:
        patch.setattr(runs, "also_watch", killed_after_one_epoch)
        with pytest.raises(KeyboardInterrupt):
            done(training.cell, tmp_path / "killed")
    if lost:  # killed after the run was begun, before it was put behind its warm-up
        shutil.rmtree(tmp_path / "killed" / training.cell.key / "run" / "checkpoints")
    done(training.cell, tmp_path / "killed")
    assert_same(what_is_kept(training.cell, tmp_path / "whole"), what_is_kept(training.cell, tmp_path / "killed"))


def test_a_cell_that_was_killed_after_its_run_is_read_from_its_files(each, tmp_path):
    training = each.run(SONG, 1)
    done(training.after, tmp_path)
    first = done(training.cell, tmp_path)
    place = tmp_path / training.cell.key
    (place / "result.json").unlink()
    weights = (place / "run" / "model.safetensors").stat().st_mtime_ns
    assert done(training.cell, tmp_path) == first
    assert (place / "run" / "model.safetensors").stat().st_mtime_ns == weights


def test_a_run_that_diverges_says_so_and_ends_nothing(each, tmp_path):
    training = each.run(Setting(("loss=song",), rate=1e20), 0)
    done(training.after, tmp_path)
    assert "NaN or infinite" in done(training.cell, tmp_path)["diverged"]


@pytest.mark.parametrize("work", ["runs:train", "peer_runs:train_libauc"])
def test_a_run_whose_warm_up_diverged_has_diverged(small_users, tmp_path, work):
    each = SetProtocol(plan(netflix=small_users), "netflix", (*TINY, "warm_up.learning_rate=1.0e+20"))
    training = each.run(SONG, 0, work=f"songrank_paper.{work}")
    assert "NaN or infinite" in done(training.after, tmp_path)["diverged"]
    assert done(training.cell, tmp_path)["diverged"].startswith("its warm-up diverged: ")


def test_epochs_by_the_clock_that_diverge_say_so(each, tmp_path):
    cell = each.by_the_clock("SONG", Setting(("loss=song",), rate=1e20)).cell
    assert "NaN or infinite" in done(cell, tmp_path)["diverged"]
