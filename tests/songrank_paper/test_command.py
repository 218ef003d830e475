"""`songrank paper` as a user meets it: what it makes, what it refuses, and that no signal costs a cell."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import songrank_paper
from songrank.data import prepare
from songrank.io.locks import alone
from tests.songrank_paper.raw_files import movielens_20m, mslr

ROOT = Path(__file__).parents[2]
PROGRAM = """
import songrank_paper
import sys
songrank_paper.EXPERIMENTS["long"] = "tests.songrank_paper.tiny:" + ("Partial" if "--json" in sys.argv else "Long")
from songrank.cli import main
main()
"""


@pytest.fixture
def tiny(monkeypatch):
    """A small experiment among those of the paper."""
    monkeypatch.setitem(songrank_paper.EXPERIMENTS, "tiny", "tests.songrank_paper.tiny:Tiny")


@pytest.fixture
def long(monkeypatch):
    """The experiment of :func:`begin`, in this process."""
    monkeypatch.setitem(songrank_paper.EXPERIMENTS, "long", "tests.songrank_paper.tiny:Long")


def begin(*words):
    """The command in a process of its own, with an experiment of some tenths of a second a cell."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "paper", "long", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def done(folder):
    """The results that are there, each with what changes when it is written again."""
    return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in folder.glob("cells/*/result.json")}


def wait_for(process, folder, number):
    for _ in range(12000):
        if len(done(folder)) >= number or process.poll() is not None:
            return
        time.sleep(0.005)
    raise AssertionError("nothing was done in a minute")


# ---- what it makes


def test_without_a_name_all_results_are_listed_with_their_titles(songrank):
    answer = songrank("paper")
    assert answer.returncode == 0
    for name in ("table-stats", "fig-functions", "fig-complexity", "fig-stop-gradient", "all"):
        assert f"\n{name}" in answer.stdout
    assert "Statistics of the data sets" in answer.stdout


def test_a_result_is_a_page_and_a_csv_a_table_and_made_once(songrank, tiny, tmp_path):
    answer = songrank("paper", "tiny", "-o", tmp_path / "out", "--seeds", 2, "--jobs", 1, "--device", "cpu")
    assert answer.returncode == 0
    assert answer.stdout.endswith(f"{tmp_path / 'out' / 'report.html'}\n")
    assert "tiny: 3 of 3 cells done: best" in answer.stderr
    before = done(tmp_path / "out")
    assert len(before) == 3
    with (tmp_path / "out" / "tiny" / "norms.csv").open() as file:
        assert len(list(csv.reader(file))) == 4
    page = (tmp_path / "out" / "report.html").read_text()
    assert "A small experiment" in page
    assert "songrank paper tiny --device cpu --seeds 2 -o" in page
    again = songrank("paper", "tiny", "-o", tmp_path / "out", "--seeds", 2, "--jobs", 1, "--device", "cpu", "-q")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert done(tmp_path / "out") == before


def test_json_is_one_object_a_cell_and_one_at_the_end(songrank, tiny, tmp_path):
    answer = songrank("paper", "tiny", "-o", tmp_path / "out", "--quick", "--jobs", 1, "--json")
    *cells, last = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [cell["cell"] for cell in cells] == ["seed 0", "seed 1", "best"]
    assert [(cell["done"], cell["known"]) for cell in cells] == [(1, 2), (2, 2), (3, 3)]
    assert last == {"report": str(tmp_path / "out" / "report.html"), "results": ["tiny"]}
    assert answer.stderr == ""


def test_files_in_the_formats_of_movielens_20m_and_mslr_go_all_the_way(songrank, tmp_path):
    ratings, lists = movielens_20m(tmp_path / "raw") / "ratings.csv", mslr(tmp_path / "MSLR-WEB30K")
    words = ["--data", f"movielens-20m={ratings}", "--data", f"mslr-web30k={lists}", "--quick", "--jobs", 1]
    answer = songrank("paper", "table-stats", "-o", tmp_path / "out", *words)
    assert answer.returncode == 0, answer.stderr
    with (tmp_path / "out" / "table-stats" / "recommendation.csv").open() as file:
        row = next(csv.DictReader(file))
    assert (row["data set"], row["used"], row["users"], row["users, paper"]) == (
        "MovieLens20M",
        "real",
        "25",
        "138493",
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "movielens-20m: MovieLens20M (25 users" in page
    assert "mslr-web30k: MSLR-WEB30K (18 queries" in page
    assert "eurlex-4k: synthetic data (1,200 texts" in page


def test_a_damaged_cell_is_said_and_done_again(songrank, tiny, tmp_path):
    words = ["paper", "tiny", "-o", tmp_path / "out", "--quick", "--jobs", 1]
    songrank(*words)
    before = done(tmp_path / "out")
    damaged = min(before)
    damaged.write_text(damaged.read_text()[:50])
    answer = songrank(*words)
    assert answer.returncode == 0
    assert answer.stderr.startswith(f"warning: {damaged}: is not valid JSON")
    after = done(tmp_path / "out")
    assert {file for file in after if after[file] != before[file]} == {damaged}


# ---- what it refuses


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig-function"], "unknown result 'fig-function'; did you mean fig-functions?"),
        (["nonsense"], "unknown result 'nonsense'; expected all or one of table-stats, "),
        (["tiny", "--data", "movielens=x"], "unknown data set 'movielens'; did you mean movielens-1m?"),
        (["tiny", "--data", "yelp"], "--data is 'yelp'; expected NAME=PATH"),
        (["tiny", "--data", "yelp=nowhere"], "nowhere: does not exist; expected a text file"),
        (["tiny", "--device", "gpu"], "device is 'gpu'; expected auto, cpu, cuda"),
        (["tiny", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["tiny", "--seeds", "1000000000000"], "Invalid value for '--seeds'"),
        (["tiny", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["tiny", "-o", "file"], "file/report.html: cannot be opened (Not a directory); choose another directory"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(songrank, tiny, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    answer = songrank("paper", *words)
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: ")
    assert message in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_raw_files_that_are_broken_are_named_with_their_line(songrank, tmp_path):
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,five,3\n")
    words = ["--data", f"movielens-20m={tmp_path / 'ratings.csv'}", "--quick", "--jobs", 1, "-o", tmp_path / "out"]
    answer = songrank("paper", "table-stats", *words)
    assert answer.returncode == 2
    assert f"{tmp_path / 'ratings.csv'}, line 2" in answer.stderr.splitlines()[-1]


def test_a_set_of_another_task_is_refused(songrank, tmp_path):
    prepare("synthetic", None, tmp_path / "set", queries=30, items=40, pairs=300)
    answer = songrank(
        "paper", "table-stats", "--data", f"bibtex={tmp_path / 'set'}", "-q", "-o", tmp_path / "out", "--quick"
    )
    assert answer.returncode == 2
    assert "is a recommendation data set; expected labelling data for bibtex" in answer.stderr


def test_what_the_user_has_in_the_folder_is_not_replaced(songrank, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ratings = movielens_20m(tmp_path / "raw") / "ratings.csv"
    prepare("synthetic", None, tmp_path / "data" / "movielens-20m", queries=30, items=40, pairs=300)
    before = (tmp_path / "data" / "movielens-20m" / "dataset.json").read_bytes()
    words = ["--quick", "--jobs", 1, "-o", "."]
    answer = songrank("paper", "table-stats", "--data", f"movielens-20m={ratings}", *words)
    assert answer.returncode == 2
    assert answer.stderr.endswith("already exists and was not made by `songrank paper`; choose another with -o\n")
    assert (tmp_path / "data" / "movielens-20m" / "dataset.json").read_bytes() == before
    (tmp_path / "cells").write_text("mine")
    answer = songrank("paper", "tiny", *words)
    assert answer.returncode == 2
    assert "cannot be written" in answer.stderr.splitlines()[-1]
    assert (tmp_path / "cells").read_text() == "mine"


def test_there_are_never_more_processes_than_cores(songrank, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("songrank_paper.workers.cores", lambda: 1)
    assert songrank("paper", "tiny", "-o", tmp_path, "--quick", "--jobs", 64).returncode == 0
    assert {int(file.read_text()) for file in tmp_path.glob("cells/*/pid")} == {os.getpid()}


def test_a_damaged_section_does_not_keep_others_from_the_page(songrank, tiny, tmp_path):
    (tmp_path / "fig-gamma").mkdir()
    (tmp_path / "fig-gamma" / "findings.json").write_text("{}")
    answer = songrank("paper", "tiny", "-o", tmp_path, "--quick", "--jobs", 1, "-q")
    assert answer.returncode == 0
    assert answer.stderr.startswith(f"warning: {tmp_path / 'fig-gamma' / 'findings.json'}: is damaged")
    assert "A small experiment" in (tmp_path / "report.html").read_text()


def test_without_matplotlib_it_says_what_to_install(songrank, tiny, tmp_path, monkeypatch):
    import importlib

    module = importlib.import_module("songrank_paper.command")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    answer = songrank("paper", "tiny", "-o", tmp_path / "out")
    assert answer.returncode == 2
    assert 'pip install "songrank[paper]"' in answer.stderr
    assert not (tmp_path / "out").exists()


def test_a_page_of_somebody_else_is_not_replaced(songrank, tiny, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    answer = songrank("paper", "tiny", "-o", tmp_path)
    assert answer.returncode == 2
    assert "report.html: already exists and was not made by `songrank paper`" in answer.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_only_one_process_at_a_time_works_in_a_folder(songrank, tiny, tmp_path):
    with alone(tmp_path, "written"):
        answer = songrank("paper", "tiny", "-o", tmp_path)
    assert answer.returncode == 2
    assert "is being written by another process; wait until it has finished" in answer.stderr
    assert done(tmp_path) == {}


# ---- signals


def test_after_a_kill_no_process_goes_on_and_only_the_missing_cells_are_done(tmp_path, songrank, long):
    words = ["-o", tmp_path, "--seeds", 15, "--device", "cpu"]
    process = begin(*words, "--jobs", 2)
    wait_for(process, tmp_path, 3)
    workers = {int(file.read_text()) for file in tmp_path.glob("cells/*/pid")}
    process.kill()
    process.communicate(timeout=60)
    assert process.pid not in workers
    assert all(ended(worker) for worker in workers)
    before = done(tmp_path)
    assert 3 <= len(before) < 16
    assert not (tmp_path / "report.html").exists()
    answer = songrank("paper", "long", *words, "--jobs", 1, "--json")
    *cells, _ = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(cells) == 16 - len(before)
    after = done(tmp_path)
    assert len(after) == 16
    assert before.items() <= after.items()
    assert (tmp_path / "report.html").exists()


def ended(pid):
    for _ in range(3000):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(("number", "jobs", "code"), [(signal.SIGTERM, 1, 143), (signal.SIGINT, 2, 130)])
def test_a_signal_ends_it_in_good_order(tmp_path, number, jobs, code):
    process = begin("-o", tmp_path, "--seeds", 60, "--jobs", jobs, "--device", "cpu")
    wait_for(process, tmp_path, 2)
    workers = {int(file.read_text()) for file in tmp_path.glob("cells/*/pid")}
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    last = err.splitlines()[-1]
    assert last.startswith("stopped, long: ")
    assert last.endswith(" of 60 cells done; run the same command to resume")
    assert "Traceback" not in err
    assert 2 <= len(done(tmp_path)) < 60
    assert list(tmp_path.glob("cells/*/.songrank-new-*")) == []
    assert all(ended(worker) for worker in workers)
    assert not (tmp_path / "report.html").exists()


def test_results_so_far_are_shown_by_an_experiment_that_can(tmp_path):
    process = begin("-o", tmp_path, "--seeds", 60, "--jobs", 1, "--device", "cpu", "--json")
    wait_for(process, tmp_path, 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.splitlines()[-1].startswith("stopped, long: ")
    shown = json.loads((tmp_path / "long" / "findings.json").read_text())
    assert shown["remarks"] == [f"{len(done(tmp_path))} norms so far"]
    assert shown["section"]["cells"] == len(done(tmp_path)) < 60
    assert "norms so far" in (tmp_path / "report.html").read_text()
