"""A training run does not import torch's compiler, which takes seconds."""

import subprocess
import sys

import pytest

TRAIN = """
import sys
import torch
from songrank.models import MatrixFactorisation
from songrank.training.optim.base import SGD, Adam
model = MatrixFactorisation(4, 5, dim=3)
for optimiser in (Adam(model.parameters()), SGD(model.parameters(), 0.1)):
    for _ in range(2):
        optimiser.zero_grad()
        model(torch.arange(3), torch.arange(5).unsqueeze(0)).sum().backward()
        optimiser.step()
    optimiser.load_state_dict(optimiser.state_dict())
    optimiser.resume(optimiser.state_dict())
assert "torch._dynamo" not in sys.modules
"""


def test_steps_and_states_of_optimisers_import_no_compiler():
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


RUN = """
import sys
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
loss, data, place = sys.argv[1:]
recipe = {"data": data, "model": {"name": "neumf", "dim": 4, "hidden": [4]}, "warm_up": {"epochs": 1}, "device": "cpu",
          "batch": {"queries": 16, "relevant": 4, "irrelevant": 8}, "fine_tuning": {"epochs": 1, "clip": 1.0},
          "loss": {"name": loss}}
assert Run.begin(Recipe.read(recipe), place).finish()
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.parametrize("loss", ["song", "softmax"])
def test_a_run_imports_no_compiler(dataset, tmp_path, loss):
    command = [sys.executable, "-c", RUN, loss, str(dataset), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_compiler_would_be_noticed():
    used = "import sys, torch; torch.optim.SGD([torch.zeros(1)], 0.1); assert 'torch._dynamo' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", used], capture_output=True).returncode == 1
