"""Finished runs that several tests read and none changes."""

import pytest

from tests.analysis.report.small_runs import train


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """One run of each task by name: song on recommendation, k-song on search, listwise-ce on labelling."""
    folders = {task: tmp_path_factory.mktemp(task) for task in ("recommendation", "search", "labelling")}
    losses = {"recommendation": "song", "search": "k-song", "labelling": "listwise-ce"}
    return {task: train(folder, task, f"loss={losses[task]}") for task, folder in folders.items()}


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """Two methods with two seeds each on one data set, and the folder that they are in."""
    folder = tmp_path_factory.mktemp("compared")
    for loss in ("song", "lambdarank"):
        for seed in (0, 1):
            train(folder, "recommendation", f"loss={loss}", f"seed={seed}", name=f"runs/{loss}-{seed}")
    return folder / "runs"
