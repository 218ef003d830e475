"""Commands that several processes run together: the output of one process, printed and written once."""

import os
import subprocess
import sys

import pytest

from tests.cli.small_sets import recipe
from tests.processes import ROOT, run_songrank


@pytest.fixture(params=["recommendation", "search"])
def run(request, songrank, tmp_path):
    words, path = recipe(tmp_path, request.param)
    assert songrank(*words).returncode == 0
    assert songrank("train", path, "-o", tmp_path / "run", "-q").returncode == 0
    return tmp_path / "run"


def test_evaluation(songrank, run):
    words = ["evaluate", run, "--metric", "ndcg", "--metric", "mrr", "--json", "--device", "cpu"]
    first, second = run_songrank(2, *words)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout == songrank(*words).stdout
    assert second.stdout == first.stderr == second.stderr == ""


def test_an_error_of_all_processes_is_printed_once(tmp_path):
    first, second = run_songrank(2, "evaluate", tmp_path / "nowhere")
    assert (first.returncode, second.returncode) == (2, 2)
    assert first.stderr.startswith(f"error: {tmp_path / 'nowhere'}")
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""


@pytest.mark.parametrize("run", ["recommendation"], indirect=True)
def test_under_torchrun(songrank, run, tmp_path):
    words = ["evaluate", run, "--metric", "ndcg", "--json", "--device", "cpu"]
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "songrank"]
    done = subprocess.run(
        [sys.executable, "-m", *launch, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == songrank(*words).stdout
