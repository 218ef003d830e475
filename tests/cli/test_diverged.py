"""A run that diverges: it resumes with a lower learning rate, which is recorded, and its weights so far can be used."""

import json

import polars as pl
import pytest
import torch

from songrank.data import prepare
from songrank.io.arrays import read_arrays
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe_files import read_yaml

SHORT = ["model.dim=4", "model.hidden=[4]", "warm_up.epochs=2", "fine_tuning.epochs=2", "device=cpu", "loss=softmax"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diverged") / "data"
    prepare("synthetic", None, folder, queries=60, items=40, pairs=900)
    return folder


@pytest.fixture
def diverged(songrank, data, tmp_path):
    """A run that diverges in fine-tuning, after the checkpoint of the warm-up."""
    run = tmp_path / "run"
    words = ["train", "neumf", f"data={data}", *SHORT, "fine_tuning.learning_rate=1e30", "-o", run, "-q"]
    done = songrank(*words)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert (
        f"lower the learning rate, for example with `songrank train --resume {run} fine_tuning.learning_rate=3.3e+29`"
        in done.stderr
    )
    return run


def test_a_lower_learning_rate_resumes_from_the_last_checkpoint_and_is_recorded(songrank, data, diverged, tmp_path):
    (step,) = Checkpoints(diverged / "checkpoints").steps()
    done = songrank("train", "--resume", diverged, "fine_tuning.learning_rate=0.01", "-q")
    assert done.returncode == 0, done.stderr
    told = json.loads((diverged / "run.json").read_text())
    assert (told["status"], "error" in told) == ("finished", False)
    (change,) = told["recipe_changes"]
    assert (change["step"], change["changes"]) == (step, ["fine_tuning.learning_rate=0.01"])
    assert read_yaml((diverged / "config.yaml").read_text(), "config")["fine_tuning"]["learning_rate"] == 0.01

    whole = tmp_path / "whole"
    words = ["train", "neumf", f"data={data}", *SHORT, "fine_tuning.learning_rate=0.01", "-o", whole, "-q"]
    assert songrank(*words).returncode == 0
    for name, weights in read_arrays(whole / "model.safetensors", "").items():
        assert torch.equal(weights, read_arrays(diverged / "model.safetensors", "")[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.dim=8", "'model.dim' cannot be changed with --resume; expected fine_tuning.clip, fine_tuning.decay, "),
        ("fine_tuning.learning_rate=-1", "fine_tuning.learning_rate is -1"),
        ("fine_tuning.learning_rate=x", "fine_tuning.learning_rate is 'x'"),
    ],
)
def test_other_changes_are_rejected_and_change_nothing(songrank, diverged, change, message):
    before = (diverged / "config.yaml").read_bytes()
    done = songrank("train", "--resume", diverged, change, "-q")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert (diverged / "config.yaml").read_bytes() == before
    assert "recipe_changes" not in json.loads((diverged / "run.json").read_text())


def test_an_edited_recipe_is_still_rejected(songrank, diverged):
    config = diverged / "config.yaml"
    *lines, _ = config.read_text().replace("1.0e+30", "0.01").splitlines(keepends=True)
    config.write_text("".join(lines))  # without its checksum
    done = songrank("train", "--resume", diverged, "-q")
    assert done.returncode == 2
    assert "belongs to another recipe or data set" in done.stderr


def test_the_weights_so_far_recommend_when_told(songrank, diverged, tmp_path):
    output = tmp_path / "best.csv"
    assert songrank("recommend", diverged, "-o", output, "-q").returncode == 2
    done = songrank("recommend", diverged, "-o", output, "--last-checkpoint", "-q")
    assert done.returncode == 0, done.stderr
    assert "run: the best weights up to the checkpoint at step " in done.stderr
    assert pl.read_csv(output).height > 0
    assert not (diverged / "model.json").exists()
