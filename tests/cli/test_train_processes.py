"""``songrank train`` in several real processes: output, signals, and failures of one of them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from songrank.data import prepare
from songrank.training.checkpoints import Checkpoints
from tests.processes import ROOT, results, run_songrank, started

SMALL = ["model.dim=8", "model.dropout=0", "batch.queries=16", "batch.relevant=3", "batch.irrelevant=10"]
SMALL += ["warm_up.epochs=1", "device=cpu"]
LONG = ["fine_tuning.epochs=100000", "validation.every=100000", "validation.min_steps=1", "--json"]
LIMITED = """
import os, resource, signal
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
from songrank.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data") / "set"
    prepare("synthetic", None, place, queries=40, items=30, pairs=400)
    return place


def words(data, *changes):
    return ["train", "neumf", f"data={data}", *SMALL, *changes]


def test_two_processes_train_and_the_first_prints_and_writes(data, tmp_path, songrank):
    run = words(data, "fine_tuning.epochs=2")
    first, second = run_songrank(2, *run, "-o", tmp_path / "two")
    assert (first.returncode, second.returncode, second.stdout, second.stderr) == (0, 0, "", ""), first.stderr
    assert songrank(*run, "-o", tmp_path / "one").returncode == 0
    for split in ("validation", "test"):
        two, one = (json.loads((tmp_path / name / f"evaluation/{split}.json").read_text()) for name in ("two", "one"))
        assert two == {**one, "metrics": pytest.approx(one["metrics"], abs=0.03)}
    notes = json.loads((tmp_path / "two" / "run.json").read_text())
    assert (notes["status"], notes["processes"], notes["backend"]) == ("finished", 2, "gloo")
    assert notes["step_kind"] == "plain"
    items, hidden = 30 * 2 * 8, 64
    assert notes["bytes_per_step"] == 4 * (items + 2 * 8 * hidden + hidden + 8 + hidden)  # without the tables of users
    lines = [(tmp_path / name / "metrics.jsonl").read_text().count("\n") for name in ("one", "two")]
    assert lines == [3, 3]


def test_a_signal_to_one_process_stops_all_with_a_checkpoint(data, tmp_path):
    with started(2, "-m", "songrank", *words(data, *LONG), "-o", tmp_path / "run") as running:
        assert running[0].stdout.readline()
        running[1].send_signal(signal.SIGTERM)
        first, second = results(running)
    assert (first.returncode, second.returncode, second.stderr) == (143, 143, ""), first.stderr
    assert "resume with `songrank train --resume" in first.stderr
    (step,) = Checkpoints(tmp_path / "run" / "checkpoints").steps()[-1:]
    assert f"stopped after step {step:,};" in first.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "stopped"


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_the_other_with_one_line(killed, data, tmp_path):
    with started(2, "-m", "songrank", *words(data, *LONG), "-o", tmp_path / "run") as running:
        assert running[0].stdout.readline()
        running[killed].kill()
        ended = results(running)
    assert ended[1 - killed].returncode == 1
    assert ended[1 - killed].stderr.startswith("error: another process has ended or cannot be reached")
    assert ended[1 - killed].stderr.count("\n") == 1


def test_a_loss_that_diverges_is_reported_once(data, tmp_path):
    diverging = words(data, "warm_up.learning_rate=1e30", "fine_tuning.learning_rate=1e30", "fine_tuning.epochs=9")
    first, second = run_songrank(2, *diverging, "-o", tmp_path / "run")
    assert (first.returncode, second.returncode, second.stderr) == (1, 1, "")
    assert first.stderr.splitlines()[-1].startswith("error: step ")
    assert "NaN or infinite" in first.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"


def test_a_full_disk_on_one_process_leaves_no_part_of_a_checkpoint(data, tmp_path):
    with started(2, "-c", LIMITED, *words(data, "fine_tuning.epochs=2"), "-o", tmp_path / "run") as running:
        first, second = results(running)
    assert (first.returncode, second.returncode, second.stderr) == (2, 2, ""), (first.stderr, second.stderr)
    assert "process 1: " in first.stderr
    assert "cannot be written (File too large)" in first.stderr
    assert not list((tmp_path / "run").glob("checkpoints/*"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data=nowhere"], "nowhere"),
        (["loss=sonh"], "did you mean"),
        (["model=ease"], "ease"),
    ],
)
def test_an_invalid_command_is_reported_once(changes, message, data, tmp_path):
    first, second = run_songrank(2, *words(data, *changes), "-o", tmp_path / "run")
    assert (first.returncode, second.returncode, second.stderr) == (2, 2, "")
    assert first.stderr.startswith("error: ")
    assert message in first.stderr
    assert not (tmp_path / "run").exists()


def test_torchrun_resumes_a_run_after_a_kill(data, tmp_path):
    run = [*words(data, "fine_tuning.epochs=40"), "--json", "-o", str(tmp_path / "run")]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1", "--standalone"]
    place = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*launch, "-m", "songrank", *run], env={**os.environ, **place}, **pipe) as job:
        try:
            line = job.stdout.readline()
            while '"epoch"' not in line:
                line = job.stdout.readline()
                assert line, job.stderr.read()
            children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)
            out, err = job.communicate(timeout=100)
        finally:
            if job.poll() is None:
                job.terminate()  # it ends its processes
                job.communicate(timeout=40)
    assert job.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["run"] == str(tmp_path / "run")
    history = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in history] == [1, *range(1, 41)]
    assert torch.tensor([line["loss"] for line in history]).isfinite().all()
