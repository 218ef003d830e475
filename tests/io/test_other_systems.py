"""What only POSIX or Linux has is taken away, and data sets are prepared and folders locked without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import os, shutil, sys, types
import polars as pl
import torch  # other packages look after themselves

for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None  # importing it raises ImportError
system = sys.argv[1]
if system == "windows":
    held = set()
    def locking(handle, how, count):
        found = os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR)
        if found in held:
            raise PermissionError(13, "Permission denied")
        held.add(found)
    sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
free = shutil.disk_usage(".")
shutil.disk_usage = lambda path: free  # which has ways of its own on each system
for name in ("statvfs", "sched_getaffinity", "getuid", "fork", "mkfifo"):
    if name in vars(os):
        delattr(os, name)

import ctypes
def no_library(name=None, *rest, **more):
    if name is None:
        raise TypeError("no handle of the process itself") if system == "windows" else OSError("not here")
    return real_library(name, *rest, **more)
real_library, ctypes.CDLL = ctypes.CDLL, no_library

if system == "windows":
    shutil._use_fd_functions = False
    real_open = os.open
    def no_directories(path, *rest, **more):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest, **more)
    os.open = no_directories
    def no_kill(process, number):
        raise AssertionError("on Windows this ends the process")
    os.kill = no_kill
    import songrank.io.files
    songrank.io.files.WINDOWS = True

from pathlib import Path
from songrank.core.allocator import keep_freed_memory
from songrank.core.errors import DataError
from songrank.data import open_dataset, prepare
from songrank.io.locks import alone
from songrank.io.tables.table_writer import table_writer

folder = Path(sys.argv[2])
rows = folder / "train.txt"
rows.write_text("".join(f"{label} qid:{query} 1:0.{label} 2:{query}\\n" for query in range(9) for label in (0, 1, 2)))
(folder / "set").mkdir()
for overwrite in (False, True):
    prepare("letor", rows, folder / "set", overwrite=overwrite)
print(open_dataset(folder / "set").num_queries, sorted(os.listdir(folder)))
with alone(folder, "trained"):
    try:
        with alone(folder, "trained"):
            print("not kept out")
    except DataError as error:
        print("kept out", error.what)
with table_writer(folder / "out.csv") as writer:
    writer.write(pl.DataFrame({"user": [1]}))
print(sorted(os.listdir(folder)))
"""


@pytest.mark.parametrize(
    ("system", "locked"),
    [("windows", "kept out is being trained by another process"), ("no locks", "not kept out")],
)
def test_data_sets_are_prepared_and_folders_locked_without_posix(system, locked, tmp_path):
    command = [sys.executable, "-c", WITHOUT, system, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "9 ['set', 'train.txt']",
        locked,
        "['.songrank-lock', 'out.csv', 'set', 'train.txt']",
    ]


def test_prepared_bytes_do_not_depend_on_the_system(tmp_path):
    from songrank.data import prepare

    for system in ("windows", "here"):
        (tmp_path / system).mkdir()
    command = [sys.executable, "-c", WITHOUT, "windows", str(tmp_path / "windows")]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    prepare("letor", tmp_path / "windows" / "train.txt", tmp_path / "here" / "set")
    there, here = (
        {file.name: file.read_bytes() for file in Path(tmp_path / system / "set").iterdir()}
        for system in ("windows", "here")
    )
    assert there == here
    assert os.listdir(tmp_path / "here") == ["set"]
