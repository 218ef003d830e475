"""The programs in examples/ run as they are, and what they train ranks held-out lists better than before."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
GAINS = {  # by how much NDCG must rise
    "own_loop.py": 0.25,
    "lightning_loop.py": 0.4,
    "cross_encoder.py": 0.1,
    "text_encoder.py": 0.4,
}


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_it_runs_and_learns(file, tmp_path):
    missing = [name for name in imported(file) if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {missing[0]}")
    # Two test processes share the cores, and nothing may be fetched.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if file.name in GAINS:
        first, *_, last = (float(figure) for figure in re.findall(r"NDCG@\d+ (0\.\d+)", done.stdout))
        assert last > first + GAINS[file.name]
