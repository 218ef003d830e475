"""Checksums of files."""

import hashlib

import pytest

from songrank.core.errors import DataError
from songrank.io import checksums


def test_digests_are_those_of_hashlib_however_large_the_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "_BLOCK_BYTES", 7)
    content, seen = bytes(range(50)), []
    (tmp_path / "a").write_bytes(content)
    found = checksums.file_digests(tmp_path / "a", "md5", "sha256", progress=seen.append)
    assert found == [hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest()]
    assert seen == [7, 14, 21, 28, 35, 42, 49, 50]


def test_a_text_has_the_checksum_of_its_utf_8_bytes():
    assert checksums.sha256("ä") == checksums.sha256("ä".encode()) == hashlib.sha256(b"\xc3\xa4").hexdigest()


def test_another_content_and_a_missing_file_are_rejected(tmp_path):
    (tmp_path / "a").write_bytes(b"one")
    checksums.check_sha256(tmp_path / "a", hashlib.sha256(b"one").hexdigest(), "is damaged", "copy it again")
    with pytest.raises(DataError, match="is damaged; copy it again$"):
        checksums.check_sha256(tmp_path / "a", hashlib.sha256(b"two").hexdigest(), "is damaged", "copy it again")
    with pytest.raises(DataError, match="cannot be read .*; copy it again$"):
        checksums.check_sha256(tmp_path / "b", "0", "is damaged", "copy it again")
