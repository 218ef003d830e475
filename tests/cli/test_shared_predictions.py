"""Recommend, rank and label in several processes: the rows of one process, in one file or one per process."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from songrank.io.files import NEW
from tests.cli.small_batches import SMALL
from tests.cli.small_sets import recipe
from tests.processes import run_processes

PROGRAM = Path(__file__).with_name("small_batches.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a model of each task, and its input."""
    made = {}

    def make(task, songrank):
        if task not in made:
            place = tmp_path_factory.mktemp(task)
            words, path = recipe(place, task)
            assert songrank(*words).returncode == 0
            assert songrank("train", path, "-o", place / "run", "-q").returncode == 0
            shutil.rmtree(place / "data")
            made[task] = place
        return made[task]

    return make


@pytest.fixture
def command(request, songrank, trained):
    """The words of a command, without the output."""
    task, words = request.param
    place = trained(task, songrank)
    return [str(word).replace("PLACE", str(place)) for word in words]


RECOMMEND = ("recommendation", ["recommend", "PLACE/run", "-k", 5])
RANK = ("search", ["rank", "PLACE/run", "PLACE/source/test.txt"])
SORTED = ("search", ["rank", "PLACE/run", "PLACE/source/test.txt", "--sorted"])
LABEL = ("labelling", ["label", "PLACE/run", "PLACE/source/test.txt", "-k", 3])
every_command = pytest.mark.parametrize("command", [RECOMMEND, RANK, SORTED, LABEL], indirect=True)
one_command = pytest.mark.parametrize("command", [RECOMMEND], indirect=True)


def run(world, what, *words):
    return run_processes(world, PROGRAM, what, *words)


@pytest.fixture
def alone(songrank, monkeypatch):
    """One process with small batches."""
    for change in SMALL:
        monkeypatch.setattr(*change)
    return songrank


@every_command
def test_the_rows_of_one_process(alone, command, tmp_path):
    told = alone(*command, "-o", tmp_path / "alone.parquet")
    assert told.returncode == 0, told.stderr
    expected = pl.read_parquet(tmp_path / "alone.parquet")
    assert expected.height > 20
    first, *others = run(3, "nothing", *command, "-o", tmp_path / "parts")
    assert first.returncode == 0, first.stderr
    assert first.stdout == told.stdout.replace("alone.parquet", "parts")
    assert all((done.returncode, done.stdout, done.stderr) == (0, "", "") for done in others)
    names = sorted(file.name for file in (tmp_path / "parts").iterdir())
    assert names == [f"part-{number:05}-of-00003.parquet" for number in range(3)]
    parts = [pl.read_parquet(tmp_path / "parts" / name) for name in names]
    assert all(part.schema == expected.schema for part in parts)
    assert all(0 < part.height < expected.height for part in parts)
    assert pl.concat(parts).equals(expected)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["alone.parquet", "parts"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@one_command
def test_one_file_is_that_of_one_process(alone, command, tmp_path, suffix):
    assert alone(*command, "-o", tmp_path / f"alone{suffix}").returncode == 0
    first, _ = run(2, "nothing", *command, "-o", tmp_path / f"best{suffix}")
    assert first.returncode == 0, first.stderr
    assert (tmp_path / f"best{suffix}").read_bytes() == (tmp_path / f"alone{suffix}").read_bytes()


@one_command
def test_more_processes_than_batches(songrank, command, tmp_path):
    """The command has one batch for 40 users."""
    for name in ("best.csv", "parts"):
        first, second = run_processes(2, "-m", "songrank", *command, "-o", tmp_path / name)
        assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
        assert songrank(*command, "-o", tmp_path / f"alone {name}").returncode == 0
    assert (tmp_path / "best.csv").read_bytes() == (tmp_path / "alone best.csv").read_bytes()
    parts = [pl.read_parquet(file) for file in sorted((tmp_path / "parts").iterdir())]
    assert [part.height for part in parts] == [0, 200]
    assert [file.name for file in (tmp_path / "alone parts").iterdir()] == ["part-00000-of-00001.parquet"]
    assert pl.concat(parts).equals(pl.read_parquet(tmp_path / "alone parts" / "*.parquet"))


@pytest.mark.parametrize("name", ["best.parquet", "parts"])
@one_command
def test_a_full_disk_in_one_process(command, tmp_path, name):
    first, second = run(2, "full", *command, "-o", tmp_path / name)
    assert (first.returncode, second.returncode) == (2, 2)
    assert first.stderr.startswith(f"error: process 1: {tmp_path / name}: cannot be written (No space left on device)")
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""
    assert list(tmp_path.iterdir()) == []


@one_command
def test_a_killed_process(command, tmp_path):
    (tmp_path / "best.csv").write_text("before\n")
    first, second = run(2, "killed", *command, "-o", tmp_path / "best.csv", "--overwrite")
    assert (first.returncode, second.returncode) == (1, -9)
    assert first.stderr.startswith("error: another process has ended or cannot be reached (")
    assert first.stderr.count("\n") == 1
    assert (tmp_path / "best.csv").read_text() == "before\n"
    assert [file.name for file in tmp_path.iterdir()] == ["best.csv"]


@one_command
def test_a_directory_is_replaced_only_if_it_is_of_the_command(songrank, command, tmp_path):
    output = tmp_path / "parts"
    assert songrank(*command, "-o", output).returncode == 0
    done = songrank(*command, "-o", output)
    assert (done.returncode, done.stderr) == (2, f"error: {output}: already exists; pass --overwrite to replace it\n")
    first, second = run_processes(2, "-m", "songrank", *command, "-o", output)
    assert (first.stderr, second.stderr) == (done.stderr, "")
    (output / "part-00000-of-00009.parquet").write_bytes(b"")  # of another number of processes
    (tmp_path / f"{NEW}parts" / "process-00000").mkdir(parents=True)  # of a killed process
    assert songrank(*command, "-o", output, "--overwrite").returncode == 0
    assert [file.name for file in output.iterdir()] == ["part-00000-of-00001.parquet"]
    assert [file.name for file in tmp_path.iterdir()] == ["parts"]
    (output / "mine.txt").write_text("keep")
    done = songrank(*command, "-o", output, "--overwrite")
    assert done.stderr == f"error: {output}: contains other files (mine.txt); choose another directory\n"
    done = songrank(*command, "-o", output / "mine")
    assert done.returncode == 0
    (tmp_path / "file").write_text("keep")
    done = songrank(*command, "-o", tmp_path / "file", "--overwrite")
    assert done.stderr.endswith("file: is a file; expected a new directory, or a suffix .csv or .parquet\n")
