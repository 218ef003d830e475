"""Fixtures that tests of several modules share."""

import pytest

from songrank.data import prepare


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("data") / "set"
    prepare("synthetic", None, made, queries=60, items=50, pairs=900)
    return made


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "set"
    prepare("synthetic", None, folder, queries=120, items=60, pairs=1800)
    return folder
