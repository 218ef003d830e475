"""Files that are there whole or not at all."""

import errno
import os

import pytest

from songrank.core.errors import DataError
from songrank.io.files import write_whole


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(143), OSError(errno.ENOSPC, "No space left")])
def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, cause):
    write_whole(tmp_path / "a.json", "old")

    def full(handle):
        raise cause

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError if isinstance(cause, OSError) else type(cause)):
        write_whole(tmp_path / "a.json", "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "old")]
