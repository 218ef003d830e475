"""The leaderboard command as a user runs it."""

import json

import pytest

from tests.cli.outcomes import refused

METHODS = ("--methods", "popularity,ease,mf-song", "--budget", "2")


@pytest.fixture
def board(songrank, tmp_path):
    """A leaderboard in a directory, and the command's output."""
    place = tmp_path
    shape = ["--queries", 80, "--items", 40, "--pairs", 1200]
    assert songrank("data", "prepare", "synthetic", "-o", place / "set", *shape).returncode == 0
    done = songrank("leaderboard", place / "set", "-o", place / "board", *METHODS)
    assert done.returncode == 0, done.stderr
    return place, done


def test_it_prints_a_table_and_writes_a_report(board):
    place, done = board
    heads, *rows = done.stdout.splitlines()
    assert heads.split()[:2] == ["method", "seeds"]
    assert heads.endswith("difference to EASE")
    assert {row.split("  ")[0] for row in rows} == {"popularity", "EASE", "matrix factorisation, SONG"}
    assert "1 run with up to 2 s of training each" in done.stderr
    assert f"wrote {place / 'board' / 'report.html'}" in done.stderr.replace("\n", "")
    page = (place / "board" / "report.html").read_text()
    assert "difference to EASE" in page
    assert "popularity" in page


def test_the_same_command_takes_what_is_finished(board, songrank):
    place, first = board
    command = ("leaderboard", place / "set", "-o", place / "board", *METHODS, "--no-report")
    told = json.loads(songrank(*command, "--json").stdout)
    assert told["baseline"] == "EASE"
    table = songrank(*command, "--markdown", "-q")
    assert table.stderr == ""
    heads, line, *rows = table.stdout.splitlines()
    assert set(line) == {"|", " ", "-"}
    assert heads.count("|") == line.count("|") == rows[0].count("|")
    for row in rows:
        label, _, _, value = (cell.strip() for cell in row.split("|")[1:5])
        assert float(value) == pytest.approx(told["summaries"][label]["ndcg@10"]["mean"], abs=5e-5)
        assert value in first.stdout


def test_mistakes_are_one_line(songrank, tmp_path):
    place, data = tmp_path, tmp_path / "set"
    shape = ["--queries", 20, "--items", 20, "--pairs", 200]
    assert songrank("data", "prepare", "synthetic", "-o", data, *shape).returncode == 0
    refused(songrank("leaderboard", data, "--budget", "0"), "budget is 0; expected a number of seconds above 0")
    refused(songrank("leaderboard", data, "--seeds", "a"), "--seeds is 'a'; expected whole numbers")
    refused(songrank("leaderboard", data, "--json", "--markdown"), "exclude each other")
    refused(songrank("leaderboard", data, "--methods", "nothing"), "method is 'nothing'; expected some of popularity")
    refused(songrank("leaderboard", place / "none"), "expected a directory written by `songrank data prepare`")
