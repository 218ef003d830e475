"""Commands that several processes run together: the output of one process, printed and written once."""

import os
import subprocess
import sys

import pytest

from songrank.cli.main import COMMANDS, TOGETHER
from tests.cli.small_sets import recipe
from tests.processes import ROOT, run_processes, run_songrank

ALONE = [*sorted({command.__name__ for command in COMMANDS} - set(TOGETHER)), "data", "paper"]
FITS = """
from songrank import DocumentRanker, LabelRanker, Recommender
for kind, given in ((Recommender, ({},)), (DocumentRanker, ([], [])), (LabelRanker, ([], []))):
    try:
        kind().fit(*given)
    except ValueError as error:
        print(error)
"""


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


@pytest.mark.parametrize("command", ALONE)
def test_other_commands_need_one_process(command, tmp_path):
    first, second = run_songrank(2, command, cwd=tmp_path)
    assert (first.returncode, second.returncode) == (2, 2)
    assert first.stderr == f"error: songrank {command} runs in one process, not 2; start it without torchrun\n"
    assert first.stdout == second.stdout == second.stderr == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--lists", "--by"])
def test_figures_of_lists_and_groups_need_one_process(option, tmp_path):
    first, second = run_songrank(2, "evaluate", tmp_path, option, "10")
    assert (first.returncode, second.returncode, second.stderr) == (2, 2, "")
    assert first.stderr == f"error: songrank evaluate {option} runs in one process, not 2; start it without torchrun\n"


def test_estimators_fit_in_one_process():
    names = ("Recommender", "DocumentRanker", "LabelRanker")
    why = "train with `torchrun -m songrank train`, or fit in a program of one process"
    for done in run_processes(2, "-c", FITS):
        assert done.stdout.splitlines() == [f"{name}.fit runs in one process, not 2; {why}" for name in names]
