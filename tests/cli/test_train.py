"""Training as a user runs it: from files to a model, in all its ways to be watched and to fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from songrank.data import prepare
from songrank.losses.registry import LOSSES
from tests.cli.outcomes import same_weights, weights
from tests.cli.small_sets import TASKS, recipe

BAD = ["warm_up.optimiser=sgd", "warm_up.learning_rate=1000", "warm_up.epochs=40"]
FILES = ["checkpoints", "config.yaml", "evaluation", "metrics.jsonl", "model.json", "model.safetensors", "run.json"]


@pytest.fixture(params=TASKS)
def task(request, tmp_path, songrank):
    words, path = recipe(tmp_path, request.param)
    made = songrank(*words)
    assert made.returncode == 0, made.stderr
    return path


def test_from_files_to_a_model_that_is_evaluated_and_can_be_made_again(songrank, task, tmp_path):
    run, again = tmp_path / "run", tmp_path / "again"
    done = songrank("train", task, "seed=3", "-o", run)
    assert done.returncode == 0, done.stderr
    assert set(FILES) <= set(os.listdir(run))
    assert list((run / "tensorboard").iterdir())
    summary = json.loads((run / "evaluation" / "test.json").read_text())
    assert f"{summary['metrics']['ndcg@5']:.4f}" in done.stdout
    assert "ties: pessimistic; gain: exp2" in done.stdout

    found = json.loads(songrank("evaluate", run, "--json", "--device", "cpu").stdout)
    assert found["metrics"] == summary["metrics"]

    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["seed"] == 3
    assert config["loss"]["margin"] == 1.0  # defaults are written out
    assert songrank("train", run / "config.yaml", "-o", again, "-q").returncode == 0
    assert same_weights(run, again)
    assert (run / "metrics.jsonl").read_bytes() == (again / "metrics.jsonl").read_bytes()
    compared = songrank("compare", run, again)
    assert compared.returncode == 2
    assert "error:" in compared.stderr  # the same method, seed and data twice


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_goes_through_the_same_stages(songrank, ratings, tmp_path, loss):
    words = [f"loss={loss}", "warm_up.epochs=1", "fine_tuning.epochs=1", "-o", tmp_path / "run", "--json"]
    done = songrank("train", ratings, *words)
    assert done.returncode == 0, done.stderr
    *epochs, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["stage"] for line in epochs] == ["warm-up", "fine-tuning"]
    assert all("validation ndcg@10" in line and line["loss"] == line["loss"] for line in epochs)
    assert set(end) == {"run", "validation", "test"}


def test_quiet_says_nothing_and_lines_without_a_terminal_say_what_happens(songrank, ratings, tmp_path):
    quiet = songrank("train", ratings, "-o", tmp_path / "quiet", "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    plain = songrank("train", ratings, "validation.candidates=15", "-o", tmp_path / "plain")
    lines = [line for line in plain.stderr.splitlines() if line.startswith(("warm-up ", "fine-tuning "))]
    assert len(lines) == 6  # one an evaluation
    assert "validation ndcg@10 among 15 sampled" in plain.stderr
    line = json.loads((tmp_path / "plain" / "metrics.jsonl").read_text().splitlines()[-1])
    assert "validation ndcg@10 among 15 sampled" in line
    assert "sampled" not in plain.stdout  # at the end all items are ranked


def test_the_former_name_of_a_key_is_one_warning(songrank, ratings, tmp_path):
    done = songrank("train", ratings, "fine_tuning.average=0.9", "-o", tmp_path / "run", "-q")
    assert (done.returncode, done.stderr) == (0, "warning: fine_tuning.average is now fine_tuning.ema_decay\n")
    assert "ema_decay: 0.9" in (tmp_path / "run" / "config.yaml").read_text()


def test_without_validation_the_last_state_is_kept(songrank, ratings, tmp_path):
    done = songrank("train", ratings, "validation.every=0", "-o", tmp_path / "run")
    assert done.returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert not any(key.startswith("validation") for line in lines for key in line)


def test_a_loss_that_is_no_number_ends_with_code_1_and_one_line(songrank, ratings, tmp_path):
    done = songrank("train", ratings, *BAD, "-o", tmp_path / "run", "-q")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert " in warm-up: " in done.stderr
    assert "NaN or infinite" in done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"


def test_mixed_precision_clipping_and_momentum_train(songrank, ratings, tmp_path):
    changes = ["precision=bfloat16", "fine_tuning.clip=1.0", "fine_tuning.optimiser=sgd", "warm_up.optimiser=sgd"]
    done = songrank("train", ratings, *changes, "-o", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    assert all(value.dtype == torch.float32 for value in weights(tmp_path / "run").values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.yaml"], "nowhere.yaml: unknown recipe; expected a YAML file or one of"),
        (["movielens-1"], "movielens-1: unknown recipe; did you mean 'movielens-1m'?"),
        (["{recipe}", "loss=sung"], "loss.name is 'sung'; did you mean 'song'?"),
        (["{recipe}", "loss.gama=1"], "unknown option 'gama' for loss 'song'; did you mean 'gamma'?"),
        (["{recipe}", "loss.gamma=3"], "loss.gamma is 3.0; expected a number in (0, 1]"),
        (["{recipe}", "loss=k-song", "loss.k=none"], "loss.k is 'none'; expected a valid integer"),
        (["{recipe}", "model.dim=many"], "model.dim is 'many'; expected a valid integer"),
        (["{recipe}", "model=mlp"], "contains recommendation data with ids; expected neumf or matrix-factorisation or"),
        (["{recipe}", "fine_tuning.epochs=-1"], "fine_tuning.epochs is -1; expected greater than or equal to 0"),
        (
            ["{recipe}", "fine_tuning.learning_rate=fast"],
            "fine_tuning.learning_rate is 'fast'; expected a valid number",
        ),
        (["{recipe}", "loopy=1"], "precision, device, deterministic, seed, auto, losses"),
        (["{recipe}", "fine_tunning.epochs=1"], "unknown recipe key 'fine_tunning'; did you mean 'fine_tuning'?"),
        (["{recipe}", "unheard.of=1"], "unknown recipe key 'unheard'; expected one of title, data,"),
        (["{recipe}", "batch.relevant=al"], "batch.relevant is 'al'; expected 'all' or a whole number from 1 to"),
        (["{recipe}", "validation.metric=ndgc@5"], "validation.metric is 'ndgc@5'; expected one of dcg, ndcg"),
        (["{recipe}", "evaluation.ties=fair"], "evaluation.ties is 'fair'; expected 'pessimistic', 'average' or"),
        (["{recipe}", "device=gpu"], "device is 'gpu'; expected auto, cpu, cuda or cuda:0"),
        (["{recipe}", "device=cuda:99"], "device is 'cuda:99', but"),
        (["{recipe}", "seed=1.5"], "seed is 1.5; expected a valid integer"),
        (
            ["{recipe}", "fine_tuning.decay={{60:0.25}}"],
            "is '{60:0.25}'; expected a number, a string, a list [64, 32] or a mapping {60: 0.25}",
        ),
        (["{recipe}", "fine_tuning.decay={{0: 0.5}}"], "fine_tuning.decay.0 is 0; expected greater than 0"),
        (["{recipe}", "fine_tuning.clip=.inf"], "fine_tuning.clip is inf; expected a finite number"),
        (["{recipe}", "batch.length=2"], "batch.length is 2; expected 'all' or a whole number of at least 3"),
        (["{recipe}", "batch.irrelevant=10000000000"], "expected 'all' or a whole number from 1 to 999999999"),
        (
            ["{recipe}", "validation.metric=5"],
            "validation.metric is 5; expected the name of a metric, for example ndcg@10",
        ),
        (["{recipe}", "evaluation.metrics=[]"], "evaluation.metrics is []; expected the name of a metric"),
        (["{recipe}", "evaluation.ties=average"], "ties is 'average'; expected 'pessimistic' or 'stable' for mrr"),
        (["{recipe}", "seed=2020-13-45"], "seed is '2020-13-45'; expected a number, a string, a list"),
        (["{recipe}", "batch=null"], "batch is None; expected a mapping with keys queries, relevant,"),
        (["{recipe}", "loss=k-song", "loss.k=null"], "loss.k is None; expected a valid integer"),
        (["{recipe}", "speed"], "'speed' is not a change of a recipe"),
        (["{recipe}", "--speed", "warp"], "speed is 'warp'; expected auto or plain"),
        (["{recipe}", "--data", "x"], "--data needs --resume; for a new run, pass data=x"),
        (["{recipe}", "gamma"], "'gamma' is not a change of a recipe; expected KEY=VALUE"),
        (["{recipe}", "data=elsewhere"], "elsewhere: does not exist; create it with `songrank data prepare something`"),
        (["{recipe}", "warm_up.epochs=0", "fine_tuning.epochs=0"], "expected at least one epoch in warm_up or"),
        ([], "no recipe was given; `songrank recipes` lists the included recipes"),
        (
            ["--resume", "nowhere"],
            "nowhere: is not a run directory: it has no readable config.yaml; expected one written by",
        ),
        (["{recipe}", "--resume", "nowhere"], "--resume uses the recipe and the directory of nowhere; leave out"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(songrank, ratings, tmp_path, words, message):
    words = [word.format(recipe=ratings) for word in words]
    done = songrank("train", *words, *([] if "--resume" in words else ["-o", tmp_path / "run"]))
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_broken_yaml_is_named_with_its_line(songrank, tmp_path):
    (tmp_path / "bad.yaml").write_text("data: x\nmodel: [neumf\n")
    done = songrank("train", tmp_path / "bad.yaml")
    assert done.returncode == 2
    assert "bad.yaml, line 3: is not valid YAML" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seed: 1\nseed: 2", "is not valid YAML (duplicate key 'seed')"),
        ("seed: !!int many", "is not valid YAML (invalid literal"),
        ("losses: {sogn: {}}", "unknown loss 'sogn' in losses; expected one of song, k-song"),
        ("losses: {softmax: 7}", "losses.softmax is 7; expected a mapping"),
        ("losses: &l {song: {loss: *l}}", "a value contains itself"),
        ("title: " + "[" * 3000, "is not valid YAML (more than 50 levels)"),
        ("batch: {1: 2}", "unknown recipe key 'batch.1'; expected one of queries, relevant"),
    ],
)
def test_faults_of_a_file_are_one_line(songrank, tmp_path, line, message):
    (tmp_path / "bad.yaml").write_text(f"data: x\nmodel: neumf\nfine_tuning: {{epochs: 1}}\n{line}\n")
    done = songrank("train", tmp_path / "bad.yaml", "-o", tmp_path / "run")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_scores_that_are_no_numbers_stop_a_run_whose_loss_still_is_one(songrank, ratings, tmp_path):
    changes = ["batch.queries=1000", "warm_up.optimiser=sgd", "warm_up.loss=softmax", "warm_up.learning_rate=1e30"]
    done = songrank("train", ratings, *changes, "warm_up.decay={}", "-o", tmp_path / "run", "-q")
    assert done.returncode == 1
    assert "scores with SoftmaxCE are NaN or infinite" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_default_place_names_recipe_loss_and_seed(songrank, ratings, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert songrank("train", ratings, "loss=listnet", "seed=7", "-q").returncode == 0
    assert (Path("runs") / "recipe-listnet-7" / "model.safetensors").exists()


def test_memory_that_is_not_enough_is_one_line(tmp_path):
    """A step that wants 9 GB, in a process that may have 6."""
    prepare("synthetic", None, tmp_path / "data", queries=300, items=3000, pairs=9000)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (6 * 10**9, 6 * 10**9));"
        "from songrank.cli import main; sys.argv[0] = 'songrank'; main()"
    )
    words = ["train", "recommendation", f"data={tmp_path / 'data'}", "model.dim=8", "loss=neural-ndcg", "device=cpu"]
    words += ["batch.relevant=all", "batch.irrelevant=all", "warm_up.epochs=0", "validation.every=0", "-q"]
    words += ["batch.queries=256"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "-o", tmp_path / "run"], capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "run: out of memory (" in done.stderr
    assert done.stderr.endswith("; reduce batch.queries or batch.irrelevant, or use a smaller model\n")
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (told["status"], told["error"][:13]) == ("failed", "out of memory")


def test_a_better_state_of_the_warm_up_is_said(songrank, tmp_path):
    shape = ["--queries", 300, "--items", 100, "--pairs", 6000]
    assert songrank("data", "prepare", "synthetic", "-o", tmp_path / "data", *shape).returncode == 0
    words = ["warm_up.epochs=12", "fine_tuning.epochs=1", "fine_tuning.learning_rate=1e-20", "validation.every=1"]
    done = songrank("train", "quick", f"data={tmp_path / 'data'}", *words, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    name = next(key for key in lines[0] if key.startswith("validation"))
    best = max(line[name] for line in lines[:-1])
    assert best > lines[-1][name]  # a new head that learns nothing ranks at random
    assert (
        f"warning: fine-tuning is worse than warm-up: best {name} {lines[-1][name]:.4f}, against {best:.4f} after"
        in done.stderr
    )
    assert "warm-up 12/12: objective" in done.stderr
    assert f"best checkpoint: fine-tuning, epoch 1 of 1 (step {lines[-1]['step']}), {name}" in done.stderr

    words += ["validation.keep=all", "-o", tmp_path / "all"]
    kept = songrank("train", "quick", f"data={tmp_path / 'data'}", *words)
    assert kept.returncode == 0, kept.stderr
    assert "is worse than warm-up" not in kept.stderr
    *_, line, beside, below = kept.stderr.splitlines()
    assert line.startswith("best checkpoint: warm-up, epoch ")
    assert line.endswith(f"{name} {best:.4f}")
    assert beside.startswith(f"{name}: ")
    assert ", beside popularity " in beside
    assert below.startswith("warning: the model is below EASE on validation: ndcg@10 -")


def test_a_file_in_place_of_a_data_set(songrank, ratings, tmp_path):
    file = tmp_path / "source" / "ratings.dat"
    done = songrank("train", ratings, f"data={file}", "-o", tmp_path / "run")
    assert done.returncode == 2
    assert f"error: {file}: is a file, not a prepared data set; prepare it first" in done.stderr


@pytest.mark.parametrize("command", ["recommend", "export"])
def test_a_run_without_a_model_says_how_it_gets_one(songrank, ratings, tmp_path, command):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("data: x\n")
    done = songrank(command, run, "-o", tmp_path / ("out.csv" if command == "recommend" else "out.onnx"))
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {run}: has no model yet; finish it with `songrank train --resume {run}`\n",
    )
