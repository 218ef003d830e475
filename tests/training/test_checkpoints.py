"""Checkpoints come back as they were, survive being killed, and are refused when they are damaged."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.errors import UserError
from songrank.training.checkpoints import Checkpoints, flatten, random_state, set_random_state, unflatten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
def test_tensors_of_all_types_come_back_bit_for_bit(dtype, tmp_path):
    value = torch.randn(3, 4).to(dtype)
    Checkpoints(tmp_path).save(1, {"a": value, "empty": torch.zeros(0, 2), "view": value.t()})
    _, state = Checkpoints(tmp_path).latest()
    assert state["a"].dtype == dtype
    assert torch.equal(state["a"], value)
    assert torch.equal(state["view"], value.t())
    assert state["empty"].shape == (0, 2)


def test_what_was_saved_does_not_change_with_the_model(tmp_path):
    weight = torch.zeros(2)
    kept = Checkpoints(tmp_path)
    kept.save(1, {"weight": weight})
    weight += 1
    _, state = kept.latest()
    assert state["weight"].tolist() == [0, 0]


def test_an_optimiser_goes_on_bit_for_bit(tmp_path):
    def train(steps, state=None):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        if state is not None:
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])
            set_random_state(state["random"])
        for _ in range(steps):
            optimiser.zero_grad()
            model(torch.ones(5, 4)).square().sum().backward()
            optimiser.step()
        return {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "random": random_state()}

    whole = train(6)
    Checkpoints(tmp_path).save(3, train(3))
    _, half = Checkpoints(tmp_path).latest()
    again = train(3, half)
    for name, value in whole["model"].items():
        assert torch.equal(value, again["model"][name])
    assert torch.equal(whole["random"]["cpu"], again["random"]["cpu"])


def test_the_last_ones_are_kept(tmp_path):
    kept = Checkpoints(tmp_path)
    for step in range(1, 5):
        kept.save(step, {"step": step})
    assert kept.latest() == (4, {"step": 4})
    assert sorted(os.listdir(tmp_path)) == ["step-000000003", "step-000000004"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / "tensors.safetensors").write_bytes(b""),
        lambda place: cut(place / "tensors.safetensors"),
        lambda place: flip(place / "tensors.safetensors"),
        lambda place: (place / "tensors.safetensors").unlink(),
        lambda place: (place / "state.json").unlink(),
        lambda place: cut(place / "state.json"),
        lambda place: (place / "state.json").write_text("[]"),
        lambda place: (place / "state.json").write_text('{"version": 99}'),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_is_used(damage, tmp_path):
    said = []
    kept = Checkpoints(tmp_path, warn=said.append)
    for step in (1, 2):
        kept.save(step, {"weight": torch.full((10,), float(step))})
    damage(tmp_path / "step-000000002")
    step, state = kept.latest()
    assert step == 1
    assert state["weight"].tolist() == [1.0] * 10
    assert len(said) == 1
    assert "\n" not in said[0]
    assert "step-000000002" in said[0]


def test_a_checkpoint_that_may_not_be_read_is_not_taken_for_a_damaged_one(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path)
    kept.save(1, {"weight": torch.ones(10)})
    modes = {file.stat().st_mode for file in (tmp_path / "step-000000001").iterdir()}
    assert len(modes) == 1  # whoever may read one may read all
    monkeypatch.setattr(os, "access", lambda file, mode: file.name != "tensors.safetensors")
    with pytest.raises(UserError, match=r"tensors\.safetensors: cannot be read \(permission denied\); ask its owner"):
        kept.latest()
    monkeypatch.undo()
    assert kept.latest()[0] == 1


def cut(file: Path):
    file.write_bytes(file.read_bytes()[:-7])


def flip(file: Path):
    data = bytearray(file.read_bytes())
    data[-3] ^= 255
    file.write_bytes(data)


SAVE = """
import sys, torch
from pathlib import Path
from songrank.training.checkpoints import Checkpoints
kept = Checkpoints(Path(sys.argv[1]))
for step in range(1, 10_000):
    kept.save(step, {"weight": torch.full((50_000,), float(step))})
    print(step, flush=True)
"""


def test_killed_at_any_moment_the_last_whole_one_is_there(tmp_path):
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SAVE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        done = 0
        for _ in range(rng.randint(3, 12)):
            done = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        step, state = Checkpoints(tmp_path).latest()
        assert step >= done
        assert state["weight"].unique().tolist() == [float(step)]
        for old in tmp_path.glob("step-*"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)

TREES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=12) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_comes_back_through_json(state):
    tree, tensors = flatten({"state": state})
    assert unflatten(json.loads(json.dumps(tree)), tensors) == {"state": state}
