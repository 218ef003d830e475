"""Folders that are whole or not there, even when a process is killed or cannot write."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from songrank.data import DataError
from songrank.io.staging import staged_directory

STAGE = """
import sys
from pathlib import Path
from songrank.io.json_files import write_json
from songrank.io.staging import staged_directory
with staged_directory(Path(sys.argv[1]), marker="dataset.json", overwrite=True) as folder:
    (folder / "data.safetensors").write_bytes(b"x" * 1000)
    print("inside", flush=True)
    sys.stdin.readline()
    write_json(folder / "dataset.json", {"is": "new"})
"""


def inside(target: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", STAGE, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "inside\n"
    return process


def test_a_killed_process_leaves_nothing_that_looks_finished_and_the_next_one_cleans_up(tmp_path):
    target = tmp_path / "set"
    process = inside(target)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not target.exists()
    assert len(list(tmp_path.glob(".set.songrank-unfinished-*"))) == 1
    process = inside(target)
    process.communicate("go\n")
    assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["set"]
    assert sorted(os.listdir(target)) == ["data.safetensors", "dataset.json"]


def test_a_process_at_work_is_not_disturbed_by_another(tmp_path):
    first, second = inside(tmp_path / "set"), inside(tmp_path / "set")
    for process in (first, second):
        process.communicate("go\n")
        assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["set"]


def test_overwriting_keeps_the_old_one_until_the_new_one_is_whole(tmp_path):
    target = tmp_path / "set"
    target.mkdir()
    (target / "dataset.json").write_text('{"is": "old"}')
    process = inside(target)
    assert "old" in (target / "dataset.json").read_text()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert "old" in (target / "dataset.json").read_text()
    inside(target).communicate("go\n")
    assert "new" in (target / "dataset.json").read_text()


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    code = STAGE.replace(
        "import sys\n", "import sys, resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n", 1
    )
    code = code.replace("with staged", "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\nwith staged")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "set")], capture_output=True, text=True)
    assert "DataError" in done.stderr
    assert "cannot be written (File too large); nothing was written" in done.stderr
    assert os.listdir(tmp_path) == []


def test_folders_of_others_are_never_touched(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "thesis.tex").write_text("mine")
    with (
        pytest.raises(DataError, match="already exists and has no dataset.json"),
        staged_directory(tmp_path / "set", marker="dataset.json", overwrite=True),
    ):
        pytest.fail("went in")
    assert (tmp_path / "set" / "thesis.tex").read_text() == "mine"


SWAP = """
import os, signal, sys
from pathlib import Path
import songrank.io.staging as staging
from songrank.io.json_files import write_json
real = os.rename
def rename(source, target):
    real(source, target)
    if sys.argv[2] == "two steps":
        os.kill(os.getpid(), int(sys.argv[3]))
if sys.argv[2] == "two steps":
    staging._exchange = lambda one, other: False
    os.rename = rename
with staging.staged_directory(Path(sys.argv[1]), marker="dataset.json", overwrite=True) as folder:
    write_json(folder / "dataset.json", {"is": "new"})
"""


@pytest.mark.parametrize("way", ["at once", "two steps"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_replaced_folder_is_never_lost(way, number, tmp_path):
    target = tmp_path / "set"
    target.mkdir()
    (target / "dataset.json").write_text('{"is": "old"}')
    subprocess.run([sys.executable, "-c", SWAP, str(target), way, str(int(number))], capture_output=True)
    with (
        pytest.raises(DataError, match="already exists; pass --overwrite"),
        staged_directory(target, marker="dataset.json"),
    ):
        pytest.fail("went in")
    assert (target / "dataset.json").exists()
    assert os.listdir(tmp_path) == ["set"]
    if way == "at once":
        assert "new" in (target / "dataset.json").read_text()


@pytest.mark.parametrize("name", ["thesis.tex", "notes.txt", "results.json"])
def test_files_that_are_not_ours_are_not_replaced(name, tmp_path):
    target = tmp_path / "set"
    target.mkdir()
    (target / "dataset.json").write_text("{}")
    (target / name).write_text("mine")
    with (
        pytest.raises(DataError, match=rf"contains other files \({name}\)"),
        staged_directory(target, marker="dataset.json", overwrite=True),
    ):
        pytest.fail("went in")


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "dataset.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with staged_directory(tmp_path / "link", marker="dataset.json", overwrite=True) as folder:
        (folder / "dataset.json").write_text('{"is": "new"}')
    assert (tmp_path / "link").is_symlink()
    assert "new" in (tmp_path / "real" / "dataset.json").read_text()


def test_folders_on_the_way_vanish_when_nothing_came_of_it(tmp_path):
    with pytest.raises(KeyError), staged_directory(tmp_path / "a" / "b" / "set", marker="dataset.json"):
        raise KeyError
    assert os.listdir(tmp_path) == []
