"""Helpers that tests of several modules share."""

import hashlib

import pytest

from songrank.data import DataError

CONTENT = bytes(range(256)) * 4096  # a mebibyte

OTHER = CONTENT[::-1]

MD5, SHA256 = hashlib.md5(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest()


def refused(fetch, what, **more):
    with pytest.raises(DataError) as raised:
        fetch(what, **more)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def left(tmp_path):
    folder = tmp_path / "files"
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []
