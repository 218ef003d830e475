"""The report command as a user runs it; what a report holds is tested in tests/report."""

import json
import re
import shutil

import pytest
import typer
from typer.testing import CliRunner

from songrank.baselines import measure
from songrank.cli.report import report as command
from songrank.core.errors import UserError
from songrank.data import open_dataset
from tests.analysis.report.small_runs import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for loss in ("song", "softmax"):
        train(folder, "recommendation", f"loss={loss}", name=f"runs/{loss}")
    return folder / "runs"


@pytest.fixture
def report(tmp_path, monkeypatch):
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(command)
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], catch_exceptions=True)


def data(file):
    return json.loads(re.search(r'id="songrank-data">(.*?)</script>', file.read_text())[1])


def test_one_run_goes_into_its_folder_and_several_go_here(report, runs, tmp_path):
    done = report(runs / "song")
    assert (done.exit_code, done.stdout) == (0, f"wrote {runs / 'song' / 'report.html'}\n")
    assert report(runs / "song", runs / "softmax").stdout == "wrote report.html\n"
    found = data(tmp_path / "report.html")
    assert [method["label"] for method in found["methods"]] == ["song", "softmax"]


def test_of_a_folder_of_runs_unfinished_ones_are_left_out(report, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    shutil.copytree(runs / "song", tmp_path / "runs" / "begun")
    shutil.rmtree(tmp_path / "runs" / "begun" / "evaluation")
    done = report("runs")
    assert done.exit_code == 0
    assert "warning: runs/begun: skipped, because it has no evaluation" in done.stderr
    assert sorted(method["label"] for method in data(tmp_path / "report.html")["methods"]) == ["softmax", "song"]


def test_options_reach_the_report(report, runs, tmp_path):
    words = ["--baseline", "softmax", "--split", "validation", "--device", "cpu", "--data", runs.parent / "data"]
    assert report(runs, "-o", "there/mine.html", *words).exit_code == 0
    found = data(tmp_path / "there" / "mine.html")
    assert (found["comparison"]["baseline"], found["split"]) == ("softmax", "validation")


def test_baseline_models_are_beside_one_run_or_several(report, runs, tmp_path):
    one = report(runs / "song", "-o", "one.html", "--baseline-model", "ease", "--baseline", "ease")
    assert one.exit_code == 0, one.stderr
    found = data(tmp_path / "one.html")
    assert [method["label"] for method in found["methods"]] == ["song"]
    compared = found["comparison"]
    assert (compared["baseline"], list(compared["differences"])) == ("ease", ["song"])
    first = compared["metrics"][0]
    expected = measure("ease", open_dataset(runs.parent / "data"), metrics=[first]).evaluation.values[first]
    assert compared["summaries"]["ease"][first]["mean"] == pytest.approx(expected)
    page = (tmp_path / "one.html").read_text()
    assert f"{first}: difference to ease" in page
    words = ["--baseline-model", "popularity", "--baseline-model", "ease"]
    assert report(runs, "-o", "all.html", *words).exit_code == 0
    assert list(data(tmp_path / "all.html")["comparison"]["summaries"]) == ["softmax", "song", "popularity", "ease"]
    refused = report(runs, "--baseline-model", "nothing")
    assert isinstance(refused.exception, UserError)
    assert str(refused.exception).startswith("baseline model is 'nothing'; expected one of ")


def test_a_file_of_the_user_stays_unless_told(report, runs, tmp_path):
    (tmp_path / "notes.html").write_text("mine")
    refused = report(runs, "-o", "notes.html")
    assert isinstance(refused.exception, UserError)
    assert (tmp_path / "notes.html").read_text() == "mine"
    assert report(runs, "-o", "notes.html", "--overwrite").exit_code == 0
    assert data(tmp_path / "notes.html")["split"] == "test"
    assert report(runs, "-o", "notes.html").exit_code == 0  # it is one of ours now


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: does not exist"),
        (["RUNS", "--split", "tset"], "split is 'tset'; expected one of train, validation, test"),
        (["RUNS", "--baseline", "bce"], "baseline 'bce' is neither a label nor one of the runs; the labels are"),
        (["RUNS", "--split", "train"], "has no evaluation of the train split; it has test, validation"),
        (["RUN", "--baseline", "song"], "baseline is 'song', but there is only one run"),
        (["RUNS", "--data", "gone"], "gone/dataset.json: is missing"),
        (["RUNS", "-o", "."], "cannot be opened (Is a directory); choose another file with -o"),
        (["RUNS", "--device", "gpu"], "device is 'gpu'; expected auto, cpu, cuda or cuda:0"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(report, runs, tmp_path, words, message):
    found = report(*[{"RUNS": runs, "RUN": runs / "song"}.get(word, word) for word in words])
    assert isinstance(found.exception, UserError)
    assert message in str(found.exception)
    assert "\n" not in str(found.exception)
    assert list(tmp_path.iterdir()) == []
