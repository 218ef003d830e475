"""Atomic writes and checksums of files."""

import errno
import hashlib
import os
import subprocess
import sys
from subprocess import PIPE

import pytest

from songrank.core.errors import DataError
from songrank.io import files, json_files


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(143), OSError(errno.ENOSPC, "No space left")])
def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, cause):
    files.write_whole(tmp_path / "a.json", "old")

    def full(handle):
        raise cause

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError if isinstance(cause, OSError) else type(cause)):
        files.write_whole(tmp_path / "a.json", "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "old")]


def test_digests_are_those_of_hashlib_however_large_the_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_BLOCK_BYTES", 7)
    content, seen = bytes(range(50)), []
    (tmp_path / "a").write_bytes(content)
    found = files.file_digests(tmp_path / "a", "md5", "sha256", progress=seen.append)
    assert found == [hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest()]
    assert seen == [7, 14, 21, 28, 35, 42, 49, 50]


def test_a_text_has_the_checksum_of_its_utf_8_bytes():
    assert files.sha256("ä") == files.sha256("ä".encode()) == hashlib.sha256(b"\xc3\xa4").hexdigest()


def test_another_content_and_a_missing_file_are_rejected(tmp_path):
    (tmp_path / "a").write_bytes(b"one")
    files.check_sha256(tmp_path / "a", hashlib.sha256(b"one").hexdigest(), "is damaged", "copy it again")
    with pytest.raises(DataError, match="is damaged; copy it again$"):
        files.check_sha256(tmp_path / "a", hashlib.sha256(b"two").hexdigest(), "is damaged", "copy it again")
    with pytest.raises(DataError, match="is missing; copy it again$"):
        files.check_sha256(tmp_path / "b", "0", "is damaged", "copy it again")


WRITE = """
import sys
from pathlib import Path
from songrank.io.files import write_whole
print("ready", flush=True)
sys.stdin.readline()
for number in range(150):
    write_whole(Path(sys.argv[1]), sys.argv[2] * 200_000)
"""


def test_two_processes_that_write_one_file_never_tear_it(tmp_path):
    place = tmp_path / "a.json"
    files.write_whole(place, "a" * 200_000)
    command = [sys.executable, "-c", WRITE, str(place)]
    writers = [subprocess.Popen([*command, letter], stdin=PIPE, stdout=PIPE, text=True) for letter in "bc"]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):
        found = place.read_text()
        assert (len(found), len(set(found))) == (200_000, 1)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("write", [files.write_whole, lambda file, text: json_files.write_json(file, {"a": text})])
def test_a_planted_symbolic_link_is_not_followed(write, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "process_mark", iter(["planted", "planted", "free"]).__next__)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (f"{files.NEW}a.json", f"{files.NEW}planted.json"):
        (folder / name).symlink_to(victim)
    monkeypatch.setattr(files, "remove_leftovers", lambda folder: None)
    write(folder / "a.json", "new")
    assert victim.read_text() == "mine"
    assert "new" in (folder / "a.json").read_text()
    assert not (folder / "a.json").is_symlink()


def test_temporary_files_of_killed_processes_are_removed_and_those_of_live_ones_kept(tmp_path):
    code = (
        "import os, sys; from songrank.io import files; print(files.process_mark(), flush=True); sys.stdin.readline()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, text=True)
    left = tmp_path / f"{files.NEW}{process.stdout.readline().strip()}.json"
    left.write_text("half")
    (tmp_path / f"{files.NEW}a.json").write_text("half, of an earlier version")
    files.write_whole(tmp_path / "a.json", "1")
    assert {file.name for file in tmp_path.iterdir()} == {"a.json", left.name}
    process.communicate("go\n")
    files.write_whole(tmp_path / "a.json", "2")
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_name_of_any_length_that_the_system_allows_can_be_written(tmp_path):
    for name in ("x" * 255, "x." + "y" * 253):
        files.write_whole(tmp_path / name, "1")
        assert (tmp_path / name).read_text() == "1"


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (errno.ENOSPC, "free disk space or choose another path with -o"),
        (errno.EACCES, "check the permissions of the directory, or choose another path with -o"),
        (errno.EROFS, "check the permissions of the directory, or choose another path with -o"),
        (errno.ENOTDIR, "choose another path with -o"),
    ],
)
def test_the_remedy_is_one_for_the_cause(tmp_path, monkeypatch, code, fix):
    def failing(handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(DataError) as caught:
        files.write_whole(tmp_path / "a.json", "new")
    assert str(caught.value) == f"{tmp_path / 'a.json'}: cannot be written ({os.strerror(code)}); {fix}"
