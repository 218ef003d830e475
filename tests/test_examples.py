"""The programs in examples/ run as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_it_runs(file, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # two test processes share the cores
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout
