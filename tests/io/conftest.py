"""Fixtures that tests of several modules share."""

import pytest

from songrank.data.download import download
from songrank.io import transfer as transfer_module


@pytest.fixture
def small_reads(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(transfer_module, "_READ_BYTES", 1 << 14)


@pytest.fixture
def waits():
    return []


@pytest.fixture
def fetch(tmp_path, waits, small_reads):
    def run(what, **more):
        return download(what, tmp_path / "files", wait=waits.append, **more)

    return run
