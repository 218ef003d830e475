"""One process at a time: locks of each system, and systems without any."""

import errno
import os
import re
from types import SimpleNamespace

import pytest

from songrank.core.errors import DataError
from songrank.io import locks
from songrank.io.locks import alone


def test_a_folder_is_one_processs_own_until_it_is_done_with_it(tmp_path):
    taken = re.escape(f"{tmp_path}: is being trained by another process; wait until it has finished")
    with alone(tmp_path, "trained"), pytest.raises(DataError, match=taken), alone(tmp_path, "trained"):
        pass
    with alone(tmp_path, "trained"):
        pass
    with pytest.raises(DataError, match="nowhere: cannot be written to"), alone(tmp_path / "nowhere", "trained"):
        pass


def test_where_there_are_no_locks_nobody_is_kept_out(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with alone(tmp_path, "trained"):
        pass


def test_a_system_without_any_lock_module(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_fcntl", None)
    monkeypatch.setattr(locks, "_msvcrt", None)
    with alone(tmp_path, "trained"), alone(tmp_path, "trained"):
        pass


def test_windows_locks_one_byte_far_behind_what_is_read(tmp_path, monkeypatch):
    taken, asked = set(), []

    def locking(handle, how, count):
        place = os.lseek(handle, 0, os.SEEK_CUR)
        asked.append((how, place, count))
        if place in taken:
            raise PermissionError(errno.EACCES, "Permission denied")
        taken.add(place)

    monkeypatch.setattr(locks, "_fcntl", None)
    monkeypatch.setattr(locks, "_msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    with alone(tmp_path, "trained"), pytest.raises(DataError, match="another process"), alone(tmp_path, "trained"):
        pass
    assert asked == [(2, 2**32 - 2, 1)] * 2


def test_an_error_that_is_not_about_locks_is_raised(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OSError, match="Input/output"), alone(tmp_path, "trained"):
        pass
