"""Atomic writes and checksums of files."""

import errno
import hashlib
import os

import pytest

from songrank.core.errors import DataError
from songrank.io import files


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
    with pytest.raises(DataError, match="cannot be read .*; copy it again$"):
        files.check_sha256(tmp_path / "b", "0", "is damaged", "copy it again")
