"""Files that are there whole or not at all."""

import errno
import fcntl
import os
import re

import pytest

from songrank.core.errors import DataError
from songrank.io.files import alone, write_whole


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(143), OSError(errno.ENOSPC, "No space left")])
def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, cause):
    write_whole(tmp_path / "a.json", "old")

    def full(handle):
        raise cause

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError if isinstance(cause, OSError) else type(cause)):
        write_whole(tmp_path / "a.json", "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "old")]


def test_a_folder_is_one_processs_own_until_it_is_done_with_it(tmp_path):
    taken = re.escape(f"{tmp_path}: is being trained by another process; wait for it")
    with alone(tmp_path, "trained"), pytest.raises(DataError, match=taken), alone(tmp_path, "trained"):
        pass
    with alone(tmp_path, "trained"):
        pass
    with pytest.raises(DataError, match="nowhere: cannot be written to"), alone(tmp_path / "nowhere", "trained"):
        pass


def test_where_there_are_no_locks_nobody_is_kept_out(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with alone(tmp_path, "trained"):
        pass
