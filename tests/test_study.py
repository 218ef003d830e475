"""benchmarks/study.py: three rounds in one command, and warm-ups that are done once."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from songrank.data import prepare
from songrank.training.run_directory import RunDirectory

STUDY = Path(__file__).parents[1] / "benchmarks" / "study.py"
MODULE = runpy.run_path(str(STUDY))
MAIN = MODULE["main"]
SMALL = "model.dim=4 model.hidden=[4] batch.irrelevant=10 warm_up.epochs=1 fine_tuning.epochs=1 validation.every=1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("study") / "data"
    prepare("synthetic", None, place, queries=30, items=40, pairs=300)
    return place


@pytest.fixture
def study(data, capsys, monkeypatch):
    """The command in this process, with one job; the words that are grids are completed to small ones."""
    monkeypatch.chdir(data.parent)

    def run(output, *words, recipe="quick"):
        try:
            MAIN([str(word) for word in (recipe, "-o", output, "--jobs", 1, *map(completed, words))])
            code = 0
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return run


def completed(word):
    return f"data=data device=cpu {SMALL} {word}" if str(word).startswith("loss=") else word


def runs(folder):
    return sorted(place.parent for place in folder.glob("*/config.yaml"))


def test_search_again_report_and_a_shared_warm_up_that_changes_no_bit(data, study, tmp_path):
    rounds = ["--seeds", "5", "--best", "1", "--again", "6", "--report", "0", "--metric", "ndcg@10,ndcg@20"]
    grids = ["loss=song loss.gamma=0.1,0.9", "loss=bce"]
    study(tmp_path / "alone", *rounds, *grids)
    processes = [sys.executable, STUDY, "quick", "-o", tmp_path / "shared", "--jobs", "2", "--share", *rounds]
    done = subprocess.run([*processes, *map(completed, grids)], capture_output=True, text=True, cwd=data.parent)
    assert done.returncode == 0, done.stderr
    for name in ("alone", "shared"):
        search, report = runs(tmp_path / name), runs(tmp_path / name / "report")
        assert [RunDirectory(run).recipe().seed for run in report] == [0, 0]
        assert sorted(RunDirectory(run).recipe().seed for run in search) == [5, 5, 5, 6, 6]
        assert not any((run / "evaluation" / "test.json").exists() for run in search)
        assert all((run / "evaluation" / "test.json").exists() for run in report)
    assert len(list((tmp_path / "shared" / "warm-ups").iterdir())) == 3  # one a seed
    for folder in (Path(), Path("report")):
        for one, other in zip(runs(tmp_path / "alone" / folder), runs(tmp_path / "shared" / folder), strict=True):
            for file in ("model.safetensors", "metrics.jsonl"):
                assert (one / file).read_bytes() == (other / file).read_bytes(), one.name


@pytest.fixture(scope="module")
def earlier(data):
    """Two other data sets of the same shape."""
    places = [data.parent / f"earlier-{back}" for back in (1, 2)]
    for back, place in enumerate(places, 1):
        prepare("synthetic", None, place, queries=30, items=40, pairs=300, seed=back)
    return places


def test_backtests_choose_by_their_own_test_and_only_the_report_sees_the_last(data, earlier, study, tmp_path):
    words = ["--seeds", "5,6", "--report", "0", "--backtests", ",".join(place.name for place in earlier)]
    done = study(tmp_path / "s", *words, "loss=song fine_tuning.learning_rate=1e-5,0.1")
    for run in runs(tmp_path / "s"):
        assert Path(RunDirectory(run).recipe().data) in earlier
    assert len(runs(tmp_path / "s")) == 2 * 2 * 2
    (report,) = runs(tmp_path / "s" / "report")
    assert Path(RunDirectory(report).recipe().data) == data
    tests: dict[float, list[float]] = {}
    for run in runs(tmp_path / "s"):
        found = json.loads((run / "evaluation" / "test.json").read_text())["metrics"]["ndcg@10"]
        tests.setdefault(RunDirectory(run).recipe().fine_tuning.learning_rate, []).append(found)
    means = {rate: sum(found) / len(found) for rate, found in tests.items()}
    low, high = sorted(means.values())
    assert high - low > 1e-6
    assert RunDirectory(report).recipe().fine_tuning.learning_rate == max(means, key=lambda rate: means[rate])
    assert f"backtest ndcg@10 {max(means.values()):.4f}" in done.stdout


def test_the_best_can_be_run_on_other_backtests(data, earlier, study, tmp_path):
    first, second = earlier
    words = ["--seeds", "5", "--again", "6", "--best", "1", "--backtests", first.name, "--backtests-again"]
    study(tmp_path / "s", *words, f"{first.name},{second.name}", "loss=song fine_tuning.learning_rate=1e-5,0.1")
    recipes = [RunDirectory(run).recipe() for run in runs(tmp_path / "s")]
    assert sorted((recipe.seed, Path(recipe.data).name) for recipe in recipes) == [
        *[(5, first.name)] * 2,
        (6, first.name),
        (6, second.name),
    ]


def test_where_a_run_of_the_second_round_fails_nothing_is_chosen(study, tmp_path):
    words = ["--seeds", "5", "--again", "6", "--report", "0", "--best", "1", "loss=song loss.gamma=0.1,7"]
    done = study(tmp_path / "s", *words)
    assert "loss.gamma is 7" in done.stdout  # a setting that is refused at first is left out, and no more
    (report,) = runs(tmp_path / "s" / "report")
    (again,) = (run for run in runs(tmp_path / "s") if RunDirectory(run).recipe().seed == 6)
    shutil.rmtree(again / "evaluation")
    shutil.rmtree(report.parent)
    done = study(tmp_path / "s", *words)
    assert "a run of the second round failed, so no setting was chosen" in done.stdout
    assert not report.exists()


def test_which_run_ends_first_cannot_decide_between_equal_settings():
    setting = MODULE["Setting"]
    figures = [{"ndcg@10": figure} for figure in (0.1, 0.2, 0.3)]
    one, other = setting(0, [], figures), setting(0, [], figures[::-1])
    assert one.mean("ndcg@10") == other.mean("ndcg@10")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "5", "--again", "5", "loss=song"], "need different seeds"),
        (["--again", "5", "loss=song"], "--again and --report need --seeds"),
        (
            ["--seeds", "5", "--report", "0", "--splits", "test", "loss=song"],
            "need --seeds, and validation or backtests to choose on",
        ),
        (["--backtests", "elsewhere", "loss=song data=a,b"], "replace data=, but a grid has several data sets"),
        (
            ["--backtests", "elsewhere,data", "loss=song"],
            "data is the data set of the recipe, whose test split is not a backtest",
        ),
        (["--backtests-again", "elsewhere", "loss=song"], "--backtests-again needs --backtests and --again"),
        (
            ["--backtests", "a", "--seeds", "5", "--again", "6", "--backtests-again", "data", "loss=song"],
            "data is the data set of the recipe, whose test split is not a backtest",
        ),
        (["--backtests", "elsewhere", "--splits", "test", "loss=song"], "--backtests use the test split"),
        (["--backtests", "elsewhere", "loss=song"], "elsewhere/dataset.json: is missing"),
        (["--seeds", "5", "loss=song seed=3"], "seeds are given by seed= in a grid and by --seeds"),
        (
            ["--metric", "ndcg@10,mrr", "loss=song"],
            "--metric is ndcg@10,mrr; expected some of ndcg@10, ndcg@20",
        ),
    ],
)
def test_what_would_not_be_an_honest_choice_is_rejected(study, tmp_path, words, message):
    done = study(tmp_path / "no", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "no").exists()


def test_a_mistake_in_the_data_is_reported_with_shared_warm_ups_too(study, tmp_path):
    done = study(tmp_path / "no", "--share", f"loss=song data={tmp_path / 'nowhere'}")
    assert done.returncode == 0
    assert "nowhere: does not exist" in done.stdout
    assert "Traceback" not in done.stderr


def test_runs_of_very_many_changes_have_names_that_a_file_system_takes(study, tmp_path):
    many = f"evaluation.metrics=[{','.join(f'ndcg@{cut}' for cut in range(1, 60))}]"
    study(tmp_path / "s", f"loss=song {many} loss.gamma=0.1,0.2 seed=0,1")
    names = [run.name for run in runs(tmp_path / "s")]
    assert len(set(names)) == 4
    assert all(len(name) < 255 for name in names)
    assert sorted(name[-6:] for name in names) == ["seed=0", "seed=0", "seed=1", "seed=1"]


def test_a_folder_with_runs_of_something_else_is_not_taken_for_this(study, tmp_path):
    other = tmp_path / "other.yaml"
    words = ["loss=song seed=0"]
    study(tmp_path / "s", *words)
    other.write_text(f"data: {data}\nmodel: neumf\nfine_tuning: {{epochs: 1, learning_rate: 0.5}}\n")
    found = study(tmp_path / "s", *words, recipe=other)
    assert "has a different recipe from its trial; move it away" in found.stdout
    assert "validation ndcg" not in found.stdout
    again = study(tmp_path / "s", *words)
    assert "validation ndcg" in again.stdout  # the same command does nothing twice
    again = study(tmp_path / "s", "--splits", "test", *words)
    assert "test.json: is missing; it was trained without this split" in again.stdout


def test_the_former_names_of_options_still_work(study, earlier, tmp_path):
    done = study(tmp_path / "s", "--rehearsals", earlier[0].name, "loss=song seed=5")
    assert done.stdout.splitlines()[-1].startswith("backtest ndcg@10")


def test_a_limit_counts_for_shared_warm_ups_too_and_nothing_is_chosen(study, tmp_path):
    words = ["--share", "--limit", "0", "--seeds", "5,6,7,8,9", "--report", "0", "loss=song"]
    done = study(tmp_path / "s", *words)
    assert "time limit reached, so no setting was chosen" in done.stdout
    assert "warm-up 5 of 5" not in done.stdout
    assert not (tmp_path / "s" / "report").exists()
