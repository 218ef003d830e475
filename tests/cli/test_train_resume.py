"""Runs that were stopped, killed, damaged or begun twice, and how they go on."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from songrank.core.errors import DataError
from songrank.io.json_files import read_json, write_json
from songrank.io.locks import alone
from songrank.training import Run, load_recipe
from songrank.training.run_directory import RunDirectory
from songrank.training.trainer.loop import Trainer
from tests.cli.outcomes import same_weights


def test_two_processes_do_not_train_the_same_run(songrank, ratings, tmp_path):
    run = tmp_path / "run"
    assert songrank("train", ratings, "-o", run, "-q").returncode == 0
    write_json(run / "run.json", {**read_json(run / "run.json"), "status": "stopped"})
    with alone(run, "trained"):
        done = songrank("train", "--resume", run)
    assert done.returncode == 2
    assert "is being trained by another process; wait until it has finished" in done.stderr
    assert songrank("train", "--resume", run, "-q").returncode == 0


def test_of_two_that_begin_the_same_run_at_once_one_is_refused(ratings, tmp_path, monkeypatch):
    place, seeds = tmp_path / "run", [0, 1]

    def begin():
        return Run.begin(load_recipe(str(ratings), [f"seed={seeds.pop()}"]), place)

    free, others = RunDirectory.check_free, []

    def another_begins_meanwhile(self, **options):
        found = free(self, **options)
        if seeds:
            others.append(begin())
        return found

    monkeypatch.setattr(RunDirectory, "check_free", another_begins_meanwhile)
    with pytest.raises(DataError, match="already contains a run"):
        begin()
    assert others[0].finish()
    assert RunDirectory(place).recipe().seed == others[0].recipe.seed == 0


def test_a_run_that_another_process_began_anew_is_not_trained_on(ratings, tmp_path):
    place = tmp_path / "run"
    first = Run.begin(load_recipe(str(ratings), ["seed=1"]), place)
    second = Run.begin(load_recipe(str(ratings), ["seed=2"]), place, overwrite=True)
    with pytest.raises(
        DataError, match="was started again by another process with another recipe; choose another directory"
    ):
        first.finish()
    assert second.finish()


def stopped_run(songrank, ratings, run):
    """A finished run that believes it was stopped: its checkpoints are there."""
    assert songrank("train", ratings, "-o", run, "-q").returncode == 0
    write_json(run / "run.json", {**read_json(run / "run.json"), "status": "stopped"})
    return sorted((run / "checkpoints").iterdir())


def test_a_checkpoint_of_another_recipe_is_refused(songrank, ratings, tmp_path):
    run = tmp_path / "run"
    stopped_run(songrank, ratings, run)
    config = (run / "config.yaml").read_text()
    config = config.replace("learning_rate: 0.01", "learning_rate: 0.02", 1)
    (run / "config.yaml").write_text(config)
    done = songrank("train", "--resume", run)
    assert done.returncode == 2
    assert "config.yaml: is damaged or was edited (checksum mismatch)" in done.stderr
    (run / "config.yaml").write_text(config.rpartition("# sha256")[0])
    done = songrank("train", "--resume", run)
    assert done.returncode == 2
    assert "belongs to another recipe or data set; restore the original config.yaml" in done.stderr


def test_damaged_checkpoints_are_set_aside_and_the_end_is_the_same(songrank, ratings, tmp_path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    assert songrank("train", ratings, "-o", whole, "-q").returncode == 0
    first, last = stopped_run(songrank, ratings, run)
    state = (last / "state.json").read_text()
    (last / "state.json").write_text(state.replace('"epoch": ', '"epoch": 1', 1))
    (first / "tensors.safetensors").write_bytes(b"")
    (run / "checkpoints" / f"refused-{last.name}").mkdir()
    (run / "checkpoints" / f"refused-{last.name}" / "state.json").write_text("of an earlier time")
    done = songrank("train", "--resume", run)
    assert done.returncode == 0
    first_line, second_line = [line for line in done.stderr.splitlines() if "checkpoints" in line]
    assert first_line.endswith("(checksum mismatch); resuming from the previous checkpoint")
    assert second_line.endswith("starting from the beginning")
    assert same_weights(run, whole)
    assert {path.name for path in (run / "checkpoints").iterdir()} >= {f"refused-{first.name}", first.name, last.name}
    assert (run / "checkpoints" / f"refused-{last.name}" / "state.json").read_text() != "of an earlier time"


def test_a_run_goes_on_from_anywhere_and_with_moved_data(songrank, ratings, tmp_path, monkeypatch):
    stopped_run(songrank, ratings, tmp_path / "run")
    (tmp_path / "data").rename(tmp_path / "moved")
    assert "or --data with --resume" in songrank("train", "--resume", tmp_path / "run").stderr
    monkeypatch.chdir("/")
    done = songrank("train", "--resume", tmp_path / "run", "--data", tmp_path / "moved", "-q")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_kill_at_the_very_start_leaves_is_no_obstacle(songrank, ratings, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".songrank-new-config.yaml").write_text("half")
    (run / "run.json").write_text("{}")
    assert songrank("train", ratings, "-o", run, "-q").returncode == 0
    assert not list(run.glob(".songrank-new-*"))


def test_a_run_is_never_overwritten_unless_asked(songrank, ratings, tmp_path):
    run = tmp_path / "run"
    assert songrank("train", ratings, "-o", run, "-q").returncode == 0
    before = (run / "model.safetensors").read_bytes()
    again = songrank("train", ratings, "seed=1", "-o", run)
    assert again.returncode == 2
    assert "already contains a run" in again.stderr
    assert (run / "model.safetensors").read_bytes() == before
    finished = songrank("train", "--resume", run)
    assert (finished.returncode, finished.stdout) == (0, "")
    assert "is finished" in finished.stderr
    assert songrank("train", ratings, "seed=1", "-o", run, "--overwrite", "-q").returncode == 0
    assert (run / "model.safetensors").read_bytes() != before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    assert (
        "exists and is not a run directory"
        in songrank("train", ratings, "-o", tmp_path / "other", "--overwrite").stderr
    )
    assert (tmp_path / "other" / "thesis.tex").read_text() == "mine"


def test_a_run_is_not_gone_on_with_on_other_data(songrank, ratings, tmp_path):
    run = tmp_path / "run"
    assert songrank("train", ratings, "-o", run, "-q").returncode == 0
    write_json(run / "run.json", {**read_json(run / "run.json"), "status": "stopped"})
    words = ["data", "prepare", "movielens-1m", tmp_path / "source" / "ratings.dat", "-o", tmp_path / "data"]
    assert songrank(*words, "--labels", "binary", "--overwrite", "-q").returncode == 0
    for command in (["train", "--resume", run], ["evaluate", run]):
        done = songrank(*command)
        assert done.returncode == 2
        assert "is not the data set of" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_stopped_by_a_real_signal_and_gone_on_with_it_ends_the_same(songrank, ratings, tmp_path, number):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "songrank.cli", "train"]
    long = ["warm_up.epochs=30", "fine_tuning.epochs=30", "--json"]
    assert songrank("train", ratings, *long, "-o", tmp_path / "whole").returncode == 0
    process = subprocess.Popen(
        [*command, ratings, *long, "-o", tmp_path / "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    for _ in range(random.Random(int(number)).randint(3, 40)):
        process.stdout.readline()
    process.send_signal(number)
    _, error = process.communicate()
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        assert process.returncode == 128 + number
        assert error.startswith("stopped after step")
        assert error.count("\n") == 1
        assert f"resume with `songrank train --resume {tmp_path / 'run'}`" in error
        assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "stopped"
        assert songrank("evaluate", tmp_path / "run").returncode == 2
    done = subprocess.run(
        [*command, "--resume", tmp_path / "run", "-q"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert same_weights(tmp_path / "whole", tmp_path / "run")
    for name in ("metrics.jsonl", "evaluation/test.json", "evaluation/test.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_a_full_disk_is_one_line_and_the_run_can_go_on(songrank, ratings, tmp_path):
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000));"
        "from songrank.cli import main; main()"
    )
    words = ["train", ratings, "-o", tmp_path / "run", "-q"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1
    assert songrank("train", "--resume", tmp_path / "run", "-q").returncode == 0
    assert songrank("train", ratings, "-o", tmp_path / "whole", "-q").returncode == 0
    assert same_weights(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried"), "out of memory (DefaultCPU"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "out of memory (CUDA error"),
        (RuntimeError("shapes do not match"), None),
    ],
)
def test_a_run_that_failed_for_memory_goes_on_where_there_is_some(
    songrank, ratings, tmp_path, monkeypatch, error, short
):
    def fail(trainer):
        raise error

    with monkeypatch.context() as full:
        full.setattr(Trainer, "run", fail)
        if short is None:
            with pytest.raises(RuntimeError, match="shapes"):
                Run.begin(load_recipe(str(ratings), []), tmp_path / "run").finish()
            return
        done = songrank("train", ratings, "-o", tmp_path / "run", "-q")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"run: {short}" in done.stderr
    assert songrank("train", "--resume", tmp_path / "run", "-q").returncode == 0
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert told["status"] == "finished"
    assert "error" not in told
