"""Some tries of tools/attack.py with a fixed seed; the long form runs for minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).parents[2] / "tools" / "attack.py"
GROUPS = ("inputs", "recipes", "bits", "kills", "archives", "folders", "together", "processes", "memory")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="tries run in forked processes")
def test_some_tries_end_as_promised(tmp_path):
    words = [word for group in GROUPS for word in ("--group", group)]
    done = subprocess.run(
        [sys.executable, ATTACK, *words, "--tries", "40", "--minutes", "4", "--seed", "29", "--jobs", "2"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 40 | 0 |" in done.stdout
    assert not list(tmp_path.glob("attack-*"))
