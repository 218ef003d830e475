"""A preparation that is killed at any file-system change leaves a whole data set or none, and the next one succeeds."""

import json
import subprocess
import sys

import pytest

EVERY_CHANGE = """
import contextlib, hashlib, json, os, shutil, sys
from pathlib import Path
import torch
import songrank.core.forks as forks
import songrank.io.staging as staging
from songrank.data import open_dataset, prepare

torch.set_num_threads(1)
place, begin, swap = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if swap == "two steps":
    staging._exchange = lambda one, other: False
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}
left = None

def watch(event, arguments):
    global left
    opens = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if left is not None and (opens or event in EVENTS):
        left -= 1
        if left < 0:
            os._exit(9)

def write(target, pairs):
    prepare("synthetic", None, target, queries=20, items=30, pairs=pairs, overwrite=True)

def digests(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}

sys.addaudithook(watch)
write(place / "old", 100)
write(place / "new", 120)
old, new = digests(place / "old"), digests(place / "new")
allowed, wrong, ended = [old, new] if begin == "replaced" else [None, new], [], 0
for kill in range(10_000):
    target = place / str(kill) / "set"
    target.parent.mkdir()
    if begin == "replaced":
        shutil.copytree(place / "old", target)
    child = os.fork()
    if child == 0:
        forks._worked = os.getpid()  # one thread: nothing to wait for
        left = kill
        write(target, 120)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    hidden = swap == "two steps" and begin == "replaced" and not target.exists()  # restored by the next writer
    if not hidden and (digests(target) if target.exists() else None) not in allowed:
        wrong.append((kill, "killed", sorted(os.listdir(target))))
    try:
        with contextlib.suppress(KeyError), staging.staged_directory(target, marker="dataset.json", overwrite=True):
            raise KeyError
        if (digests(target) if target.exists() else None) not in allowed:
            wrong.append((kill, "cleared up", sorted(os.listdir(target.parent))))
        write(target, 120)
        open_dataset(target)
        if digests(target) != new or os.listdir(target.parent) != ["set"]:
            wrong.append((kill, "again", sorted(os.listdir(target.parent))))
    except Exception as error:
        wrong.append((kill, "again", str(error)))
    shutil.rmtree(target.parent)
    if code == 0:
        break
print(json.dumps({"kills": kill, "wrong": wrong}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
@pytest.mark.parametrize(("begin", "swap"), [("new", "at once"), ("replaced", "at once"), ("replaced", "two steps")])
def test_a_killed_preparation_leaves_a_whole_data_set_or_none(begin, swap, tmp_path):
    command = [sys.executable, "-c", EVERY_CHANGE, str(tmp_path), begin, swap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["kills"] > 20
