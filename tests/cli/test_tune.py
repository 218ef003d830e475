"""`songrank tune` as a user meets it: what it prints, what it refuses, and that no signal costs a trial."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

optuna = pytest.importorskip("optuna")

from songrank.cli.main import main
from songrank.data import prepare
from songrank.io.locks import alone

RECIPE = {
    "data": "data",
    "model": {"name": "neumf", "dim": 8, "hidden": [8]},
    "batch": {"queries": 16, "relevant": 4, "irrelevant": 20},
    "warm_up": {"epochs": 2, "learning_rate": 0.01},
    "fine_tuning": {"epochs": 25, "learning_rate": 0.01},
    "device": "cpu",
}
SHORT = ["warm_up.epochs=1", "fine_tuning.epochs=1"]
GAMMA = ["--search", "loss.gamma=0.1..1.0"]
RATE = ["--search", "fine_tuning.learning_rate=1e-3..1e-1:log"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    prepare("synthetic", None, folder / "data", queries=40, items=50, pairs=500)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A folder of one's own, with data and recipe in it, as the current one."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def songrank(here, monkeypatch, capfd):
    """The command in this process; for what ends before anything is trained, or soon."""
    before = signal.getsignal(signal.SIGTERM)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["songrank", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        return end.value.code, out, err

    yield call
    signal.signal(signal.SIGTERM, before)


def begin(folder, *words):
    command = [sys.executable, "-m", "songrank.cli", "tune", "recipe.yaml", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for(process, path):
    for _ in range(12000):
        if path.exists() or process.poll() is not None:
            break
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()


def stored(place):
    study = optuna.load_study(study_name="songrank", storage=f"sqlite:///{place / 'study.db'}")
    return [(one.number, one.state.name, one.params, one.value) for one in study.trials]


def histories(place):
    return {file.parent.name: file.read_text() for file in sorted(place.glob("trial-*/metrics.jsonl"))}


# ---- what it prints


def test_a_search_from_the_first_trial_to_a_recipe_that_train_accepts(songrank, here):
    code, out, err = songrank("tune", "recipe.yaml", *SHORT, *GAMMA, *RATE, "-o", "a study", "--trials", "7")
    assert code == 0, err
    lines = err.splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("trial 0: validation ndcg@10 0.")
    assert ": loss.gamma=0.1 fine_tuning.learning_rate=0.01" in lines[0]
    assert "best 0." in lines[6]
    table, notes = out.splitlines()[:6], out.splitlines()[6:]
    assert table[0].split() == ["trial", "validation", "ndcg@10", "loss.gamma", "fine_tuning.learning_rate"]
    values = [float(row.split()[1]) for row in table[1:]]
    assert len(values) == 5
    assert values == sorted(values, reverse=True)
    assert notes[0] == "7 trials with seed 0"
    assert "is optimistic" in notes[1]
    assert "evaluate on test once" in notes[1]
    assert notes[2] == "next: songrank train 'a study/best.yaml' seed=1"
    assert songrank("train", "a study/best.yaml", "seed=1", "-o", "run", "-q")[0] == 0
    assert (here / "run" / "evaluation" / "test.json").exists()


def test_json_is_one_object_a_trial_and_one_at_the_end(songrank):
    code, out, err = songrank("tune", "recipe.yaml", *SHORT, *GAMMA, "-o", "study", "--trials", "3", "--json")
    assert (code, err) == (0, "")
    *trials, last = map(json.loads, out.splitlines())
    assert [trial["trial"] for trial in trials] == [0, 1, 2]
    assert trials[2]["best"] == max(trial["value"] for trial in trials) == last["best"]["value"]
    assert last["recipe"] == "study/best.yaml"
    assert (last["trials"], last["failed"]) == (3, 0)
    code, out, err = songrank("tune", "recipe.yaml", *SHORT, *GAMMA, "-o", "study", "--trials", "3", "--json")
    assert (code, json.loads(out)) == (0, last)  # the same command again trains nothing


def test_quiet_prints_nothing(songrank):
    assert songrank("tune", "recipe.yaml", *SHORT, *GAMMA, "-o", "study", "--trials", "1", "-q") == (0, "", "")


def test_where_all_trials_fail_the_exit_code_is_1(songrank):
    rates = ["--search", "fine_tuning.learning_rate=1e29,1e30"]
    code, out, err = songrank("tune", "recipe.yaml", *rates, "-o", "study", "-q")
    assert (code, out) == (1, "")
    assert err.startswith("error: study: all trials failed (2); last error: ")
    assert err.endswith("lower the learning rate\n")
    assert err.count("\n") == 1


def test_on_a_terminal_there_is_a_bar_with_the_time_left(here):
    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "songrank.cli",
        "tune",
        "recipe.yaml",
        *SHORT,
        *GAMMA,
        "-o",
        "study",
        "--trials",
        "2",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(command, cwd=here, env=environment, stdout=subprocess.DEVNULL, stderr=child)
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # closed on the other side
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    assert process.wait(60) == 0
    assert b"trial 2/2" in seen
    assert b"trial 1: validation ndcg@10" in seen
    assert b"0:00:" in seen


def test_help_shows_the_words_and_the_usual_search(songrank):
    code, out, _ = songrank("tune", "--help")
    assert code == 0
    for word in ("loss.gamma=0.1..1.0", ":log", "null,4,16,64,256", "a decade around", "best.yaml"):
        assert word in out


# ---- signals


def test_killed_in_the_midst_of_trials_it_ends_with_the_study_of_one_that_was_not(songrank, here):
    words = ["fine_tuning.epochs=8", *GAMMA, *RATE, "--trials", "4"]
    code, whole_out, err = songrank("tune", "recipe.yaml", *words, "-o", "whole")
    assert code == 0, err
    place = here / "study"
    for number in (1, 2):
        process = begin(here, *words, "-o", "study")
        wait_for(process, place / f"trial-000{number}" / "checkpoints")  # it has finished its warm-up
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert [state for _, state, _, _ in stored(place)] == ["COMPLETE"] * number + ["RUNNING"]
    left = (place / "trial-0002" / "config.yaml").stat().st_mtime_ns
    code, out, err = songrank("tune", "recipe.yaml", *words, "-o", "study")
    assert code == 0, err
    assert [line.split(":")[0] for line in err.splitlines()] == ["trial 2", "trial 3"]
    assert (place / "trial-0002" / "config.yaml").stat().st_mtime_ns == left  # gone on with, not begun again
    assert stored(place) == stored(here / "whole")
    assert [state for _, state, _, _ in stored(place)] == ["COMPLETE"] * 4
    assert histories(place) == histories(here / "whole")
    assert (place / "best.yaml").read_text() == (here / "whole" / "best.yaml").read_text()
    assert out.splitlines()[:-1] == whole_out.splitlines()[:-1]


def test_killed_while_the_study_is_being_made_it_goes_on(songrank, here):
    words = [*SHORT, *GAMMA, "--trials", "2", "-o", "study"]
    place = here / "study"
    for path in (place, place / "study.db", place / "trial-0000"):
        process = begin(here, *words)
        wait_for(process, path)
        process.kill()
        process.communicate()
    code, _, err = songrank("tune", "recipe.yaml", *words)
    assert code == 0, err
    assert [(number, state) for number, state, _, _ in stored(place)] == [(0, "COMPLETE"), (1, "COMPLETE")]
    assert sorted(file.name for file in place.iterdir()) == [
        ".songrank-lock",
        "best.yaml",
        "study.db",
        "study.json",
        "trial-0000",
        "trial-0001",
    ]


def test_a_second_process_is_kept_out(songrank, here):
    words = [*SHORT, *GAMMA, "-o", "study", "-q"]
    assert songrank("tune", "recipe.yaml", *words, "--trials", "1")[0] == 0
    with alone(here / "study", "searched"):
        code, _, err = songrank("tune", "recipe.yaml", *words, "--trials", "2")
    assert (code, err) == (2, "error: study: is being searched by another process; wait until it has finished\n")
    assert len(stored(here / "study")) == 1


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_by_a_signal_it_saves_and_says_so(number, expected, here):
    words = [*GAMMA, "--trials", "2", "-o", "study", "fine_tuning.epochs=400"]
    process = begin(here, *words)
    wait_for(process, here / "study" / "trial-0000" / "checkpoints")
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (expected, "")
    assert err == "stopped after 0 of 2 trials; run the same command to resume\n"
    assert [(at, state) for at, state, _, _ in stored(here / "study")] == [(0, "RUNNING")]
    assert json.loads((here / "study" / "trial-0000" / "run.json").read_text())["status"] == "stopped"


# ---- what it refuses


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([*GAMMA, "--search", "loss.gama=0.1..1.0"], "unknown option 'gama' for loss 'song'; did you mean 'gamma'?"),
        (["--search", "loss.k=5..20"], "unknown option 'k' for loss 'song'"),
        (["--search", "fine_tuning.rate=0.1..1.0"], "unknown recipe key 'fine_tuning.rate'; expected one of epochs"),
        (["--search", "speed=1..2"], "unknown recipe key 'speed'"),
        (["--search", "loss.gamma=0.1..2.0"], "loss.gamma is 2.0; expected a number in (0, 1]"),
        (["--search", "loss.gamma=0..1"], "loss.gamma is 0.0; expected a number in (0, 1]"),
        (["--search", "loss.surrogate=logistic,cubic"], "loss.surrogate is 'cubic'; expected one of"),
        (["--search", "loss.gamma=1.0..0.1"], "1.0 is not below 0.1"),
        (["--search", "loss.gamma=nan..1.0"], "nan is not below 1.0"),
        (["--search", "loss.gamma=low..high"], "expected a number on both sides of .."),
        (["--search", "loss.gamma=0.1..1.0:cubic"], "expected a range with or without :log"),
        (["--search", "loss.margin=0.0..1.0:log"], ":log needs values above 0"),
        (
            ["--search", "loss.gamma=0.3"],
            "a search needs several values; pass a single one as the change loss.gamma=0.3",
        ),
        (["--search", "loss.gamma=0.3,,0.5"], "expected different values between commas"),
        (["--search", "loss.gamma"], "expected a key and its values"),
        ([*GAMMA, *GAMMA], "loss.gamma is searched twice"),
        (["--search", "seed=0..9"], "seed cannot be searched"),
        (["--search", "validation.metric=mrr,ndcg@5"], "validation cannot be searched"),
        (["--search", "loss=song,lambdarank"], "tune each in a separate study"),
        (["loss.gama=1"], "unknown option 'gama' for loss 'song'"),
        (["validation.every=0"], "validation.every is 0; expected 1 or more"),
        (["members=3"], "members is 3; expected none: only `songrank ensemble` creates such runs"),
        (["data=nowhere"], "nowhere/dataset.json: is missing"),
        (["model=mlp"], "model."),
        (["device=gpu"], "device is 'gpu'"),
        (["--trials", "0"], "--trials"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_made(words, complaint, songrank, here):
    code, out, err = songrank("tune", "recipe.yaml", *words, "-o", "study")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err
    assert not (here / "study").exists()


def test_data_without_validation_are_refused(songrank, here):
    rows = [f"{user},{(user * 7 + item * 3) % 20}" for user in range(20) for item in range(8)]
    (here / "clicks.csv").write_text("\n".join(["user,item", *rows]))
    prepare("interactions", here / "clicks.csv", here / "bare", split="random", validation=0)
    code, _, err = songrank("tune", "recipe.yaml", "data=bare", "-o", "study")
    assert code == 2
    assert err == "error: bare: has no validation split; prepare it with --validation 0.1\n"


def test_what_is_no_study_is_left_alone(songrank, here):
    for place in ("data", "recipe.yaml"):
        code, _, err = songrank("tune", "recipe.yaml", "-o", place)
        assert (code, err) == (2, f"error: {place}: already exists and is not a study; choose another with -o\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["seed=3", *GAMMA], "seed (0, now 3)"),
        (["batch.queries=8", *GAMMA], "batch.queries (16, now 8)"),
        (["loss.gamma=0.2", *GAMMA], "loss.gamma (0.1, now 0.2)"),
        (["--search", "loss.gamma=0.1..0.5"], "search loss.gamma ('0.1..1.0', now '0.1..0.5')"),
        ([*GAMMA, *RATE], "search fine_tuning.learning_rate (none, now '1e-3..1e-1:log')"),
    ],
)
def test_another_recipe_or_search_does_not_go_on_with_a_study(words, complaint, songrank):
    assert songrank("tune", "recipe.yaml", *SHORT, *GAMMA, "-o", "study", "--trials", "1", "-q")[0] == 0
    code, _, err = songrank("tune", "recipe.yaml", *SHORT, *words, "-o", "study", "--trials", "2")
    assert code == 2
    assert err.count("\n") == 1
    assert f"study: was started with other values of {complaint}; use the settings of study.json" in err


@pytest.mark.parametrize(
    ("name", "content"), [("study.json", "{"), ("study.json", "[]"), ("study.db", "no base" * 999)]
)
def test_a_damaged_study_is_one_line(name, content, songrank, here):
    assert songrank("tune", "recipe.yaml", *SHORT, *GAMMA, "-o", "study", "--trials", "1", "-q")[0] == 0
    (here / "study" / name).write_text(content)
    code, _, err = songrank("tune", "recipe.yaml", *SHORT, *GAMMA, "-o", "study", "--trials", "2")
    assert code == 2
    assert err.startswith(f"error: study/{name}: ")
    assert err.count("\n") == 1


def test_without_optuna_it_says_what_to_install(here):
    program = "import sys; sys.modules['optuna'] = None; from songrank.cli.main import main; main()"
    words = [sys.executable, "-c", program, "tune", "recipe.yaml", "-o", "study"]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == 'error: tuning needs Optuna, which is not installed: pip install "songrank[tune]"\n'
    assert not (here / "study").exists()
