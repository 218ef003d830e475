"""Fixtures that tests of several modules share."""

import pytest

from songrank.data import prepare
from tests.songrank_paper.synthetic.small_sets import TASKS


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return {task: prepare("synthetic", None, folder / task, task=task) for task in TASKS}
