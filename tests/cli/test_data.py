"""The data command as a user runs it: real processes, exit codes, one line for a mistake."""

import json
import os
import signal
import subprocess
import sys
import zipfile

import pytest

PREPARE = ["data", "prepare", "movielens-1m", "x", "-o", "y"]
KINDS = """movielens-100k movielens-1m movielens-10m movielens-20m movielens-25m movielens-32m netflix interactions
sequences ir-benchmark letor mslr-web10k mslr-web30k yahoo-ltr feature-table xmc xmc-text label-table arff synthetic"""
RATINGS = "".join(f"{user}::{movie}::{1 + movie % 5}::{movie}\n" for user in range(1, 6) for movie in range(1, 9))


def test_a_real_process_ends_with_code_2_and_one_line(tmp_path):
    command = [sys.executable, "-m", "songrank.cli", "data", "show", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: nowhere/dataset.json: is missing")


@pytest.fixture
def ratings(tmp_path):
    (tmp_path / "ratings.dat").write_text(RATINGS)
    return tmp_path / "ratings.dat"


def test_prepare_show_and_overwrite(songrank, ratings, tmp_path):
    made = songrank("data", "prepare", "movielens-1m", ratings, "-o", tmp_path / "set")
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""  # no terminal, no bar
    shown = songrank("data", "show", tmp_path / "set", "--json")
    info = json.loads(shown.stdout)
    assert (info["queries"], info["items"], info["pairs"]) == (5, 8, 40)
    assert {name: split["pairs"] for name, split in info["splits"].items()} == {"train": 30, "validation": 5, "test": 5}
    assert info["published"] is None
    again = songrank("data", "prepare", "movielens-1m", ratings, "-o", tmp_path / "set")
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "already exists; pass --overwrite to replace it" in again.stderr
    replaced = songrank(
        "data", "prepare", "movielens-1m", ratings, "-o", tmp_path / "set", "--overwrite", "--holdout=2"
    )
    assert replaced.returncode == 0
    assert json.loads((tmp_path / "set" / "dataset.json").read_text())["splits"]["test"]["pairs"] == 10


def test_show_puts_the_papers_figures_beside_ours(songrank, tmp_path):
    rows = "".join(f"{user},{movie},4.5,{movie}\n" for user in (1, 2) for movie in (10, 20, 30))
    with zipfile.ZipFile(tmp_path / "ml-20m.zip", "w") as archive:
        archive.writestr("ml-20m/ratings.csv", "userId,movieId,rating,timestamp\n" + rows)
    assert (
        songrank("data", "prepare", "movielens-20m", tmp_path / "ml-20m.zip", "-o", tmp_path / "set", "-q").stdout == ""
    )
    shown = songrank("data", "show", tmp_path / "set").stdout
    assert "paper's MovieLens20M" in shown
    assert "138,493" in shown
    assert "99.46%" in shown
    published = json.loads(songrank("data", "show", tmp_path / "set", "--json").stdout)["published"]
    assert published["pairs"] == 20_000_263


def test_list_names_all_kinds_and_the_options_of_one(songrank):
    names = songrank("data", "list").stdout
    for name in [
        "movielens-100k",
        "movielens-32m",
        "netflix",
        "interactions",
        "sequences",
        "letor",
        "mslr-web10k",
        "mslr-web30k",
    ]:
        assert name in names
    for name in ["yahoo-ltr", "feature-table", "xmc", "xmc-text", "arff", "synthetic"]:
        assert name in names
    options = songrank("data", "list", "netflix").stdout
    assert "--min-interactions" in options
    assert "100" in options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "prepare", "movielens-2m", "x", "-o", "y"], "unknown data set kind 'movielens-2m'; did you mean"),
        (
            ["data", "prepare", "movielens-1m", "x", "-o", "y", "--cats", "3"],
            "unknown option 'cats' for movielens-1m; expected one of",
        ),
        (["data", "prepare", "movielens-1m", "x", "-o", "y", "--holdout", "0"], "option holdout is '0'; expected"),
        (["data", "prepare", "movielens-1m", "x", "-o", "y", "--split", "odd"], "option split is 'odd'; expected"),
        (
            ["data", "prepare", "movielens-1m", "x", "-o", "y", "--preset", "odd"],
            "unknown preset 'odd' for movielens-1m; expected paper or raw",
        ),
        (["data", "prepare", "movielens-1m", "-o", "y"], "source is missing; movielens-1m needs ml-1m.zip"),
        (["data", "prepare", "movielens-1m", "x"], "no output directory was given; pass -o DIRECTORY"),
        (["data", "prepare", "movielens-1m", "x", "y", "-o", "z"], "unexpected extra argument"),
        (
            ["data", "prepare", "movielens-1m", "x", "-o", "y", "--seed", "1", "--seed", "2"],
            "option --seed is repeated; pass it once",
        ),
        (["data", "prepare", "movielens-1m", "nowhere.zip", "-o", "y"], "nowhere.zip: does not exist; check the path"),
        (["data", "cook"], "No such command 'cook'"),
        (["data", "show"], "Missing argument"),
        ([*PREPARE, "--name", "x"], "unknown option 'name' for movielens-1m"),
        ([*PREPARE, "--progress", "x"], "unknown option 'progress' for movielens-1m"),
        (["data", "prepare", "letor", "", "-o", "y"], "source is an empty string; letor needs a file"),
        (["data", "download", "http://[bad/x.zip"], "http://[bad/x.zip: is not a valid URL"),
        (["data", "prepare", "letor", "-o", "netflix", "nowhere", "--standardise"], "nowhere: does not exist"),
        (["data", "prepare", "letor", "-o", "y", "--", "--weird.csv"], "--weird.csv: does not exist"),
        ([*PREPARE, "--fold"], "option --fold needs a value"),
        (["data", "show", "nowhere"], "nowhere/dataset.json: is missing; expected a directory written by"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, message, songrank, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = songrank(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert os.listdir(tmp_path) == []


INTERRUPTED = """
import os, sys
from songrank.cli.main import main

def watch(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR) and "set" in str(arguments[0]):
        os.kill(os.getpid(), NUMBER)  # a file of the data set is about to be written

sys.addaudithook(watch)
sys.argv[1:] = ["data", "prepare", "movielens-1m", "ratings.dat", "-o", "set"]
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_preparation_leaves_nothing(number, code, tmp_path):
    (tmp_path / "ratings.dat").write_text(RATINGS)
    program = INTERRUPTED.replace("NUMBER", str(int(number)))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["ratings.dat"]


def test_which_columns_were_taken_and_which_are_missing_is_said(songrank, tmp_path):
    rows = "".join(f"v{visitor},s{(visitor * 3 + n) % 9},{n}\n" for visitor in range(6) for n in range(5))
    (tmp_path / "clicks.csv").write_text("Visitor,SKU,weight of event\n" + rows)
    words = ["data", "prepare", "interactions", tmp_path / "clicks.csv", "-o", tmp_path / "data"]
    done = songrank(*words, "--user-column", "Visitor", "--item-column", "SKU")
    assert done.returncode == 0, done.stderr
    assert (
        "columns: users 'Visitor', items 'SKU'; no label column: every row counts as 1 (or pass --label-column); "
        "no time column: the order of the rows is used (or pass --time-column)\n" in done.stdout
    )


def test_two_missing_columns_are_one_message(songrank, tmp_path):
    (tmp_path / "clicks.csv").write_text("who,what\n1,2\n")
    words = ["data", "prepare", "interactions", tmp_path / "clicks.csv", "-o", tmp_path / "data"]
    done = songrank(*words)
    assert done.stderr.endswith(
        "cannot find the user and the item column among 'who', 'what'; pass --user-column and --item-column\n"
    )
    done = songrank(*words, "--user-column", "who")
    assert done.stderr.endswith("cannot find the item column among 'who', 'what'; pass --item-column\n")


def test_the_summary_names_the_fold(songrank, tmp_path):
    for part in range(1, 6):
        (tmp_path / f"S{part}.txt").write_text(f"1 qid:{part} 1:0.5\n0 qid:{part} 1:0.1\n")
    done = songrank("data", "prepare", "letor", tmp_path, "-o", tmp_path / "data", "--fold", "2")
    assert done.stdout.startswith(f"{tmp_path / 'data'}: letor, search, fold 2\n"), done.stderr


def test_the_former_name_of_an_option_gives_a_hint(songrank, tmp_path):
    (tmp_path / "clicks.csv").write_text("who,item\n1,2\n1,3\n1,4\n2,2\n2,3\n2,4\n")
    words = ["data", "prepare", "interactions", tmp_path / "clicks.csv", "-o", tmp_path / "data", "-q"]
    done = songrank(*words, "--query-column", "who")
    assert (done.returncode, done.stderr) == (0, "warning: --query-column is now --user-column\n")
    done = songrank(*words, "--query-column", "who", "--user-column", "who", "--overwrite")
    assert done.stderr.startswith("error: unknown option 'query_column' for interactions; did you mean 'user_column'?")
