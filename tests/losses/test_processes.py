"""Two processes that own half of the queries each remember together what one that owns all of them does."""

import subprocess
import sys
from pathlib import Path

import torch

from songrank.memory import merge_states
from tests.losses import train_part


def test_two_processes_hold_the_state_of_one(tmp_path):
    root = Path(__file__).parents[2]
    parts = {(0, 23): tmp_path / "first.pt", (23, 60): tmp_path / "second.pt"}
    running = [
        subprocess.Popen([sys.executable, "-m", "tests.losses.train_part", str(first), str(last), str(path)], cwd=root)
        for (first, last), path in parts.items()
    ]
    states, drawn = train_part.train(0, 60)
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    (first_states, first_drawn), (second_states, second_drawn) = (
        torch.load(path, weights_only=True) for path in parts.values()
    )
    together = first_drawn | second_drawn
    assert together.keys() == drawn.keys()
    assert not first_drawn.keys() & second_drawn.keys()
    assert all(torch.equal(together[key], items) for key, items in drawn.items())
    for whole, *shares in zip(states, first_states, second_states, strict=True):
        merged = merge_states(shares)
        assert merged.keys() == whole.keys()
        for name, values in whole.items():
            # Up to rounding: where a query stands in its batch decides which of a CPU's instructions compute exp.
            torch.testing.assert_close(merged[name], values, rtol=1e-5, atol=1e-6, msg=name)
