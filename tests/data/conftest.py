"""Where real data lies, for the tests that need it."""

import os
from pathlib import Path

import pytest

from songrank.data import prepare
from tests.data.small_log import log
from tests.io.conftest import fetch, small_reads, waits  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real data sets: $SONGRANK_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("SONGRANK_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    if not (folder / "ml-1m.zip").exists():
        pytest.skip("no real data here: set SONGRANK_DATA to a folder with ml-1m.zip and the others")
    return folder


@pytest.fixture
def folder(tmp_path):
    prepare("interactions", log(), tmp_path / "set")
    return tmp_path / "set"
