"""Seconds of a run by phase, epoch and validation in run.json."""

import pytest

from songrank.training.run import Run
from tests.training.test_run import begun

PHASES = {"opening", "training", "validation", "checkpoints", "files", "evaluation"}


def test_seconds_of_phases_and_epochs_add_up_over_resumptions(dataset, tmp_path):
    stages = {"fine_tuning": {"epochs": 3}, "validation": {"every": 2}}
    whole = begun(dataset, tmp_path / "whole", **stages)
    assert whole.finish()
    stopped = begun(dataset, tmp_path / "stopped", **stages)
    stopped.trainer.tick = lambda: stopped.stop() if stopped.trainer.at.step == 1 else None
    assert not stopped.finish()
    earlier = stopped.directory.notes()["phase_seconds"]
    assert set(earlier) == PHASES - {"files", "evaluation"}
    resumed = Run.resume(tmp_path / "stopped")
    assert resumed.finish()
    for run in (whole, resumed):
        notes = run.directory.notes()
        assert set(notes["phase_seconds"]) == PHASES
        inside = {name: seconds for name, seconds in notes["phase_seconds"].items() if name != "opening"}
        assert sum(inside.values()) <= notes["seconds"]
        assert len(notes["epoch_seconds"]) == len(notes["evaluation_seconds"]) == len(run.history)
        assert notes["phase_seconds"]["training"] == pytest.approx(sum(notes["epoch_seconds"]), abs=1e-4)
        assert notes["phase_seconds"]["validation"] == pytest.approx(sum(notes["evaluation_seconds"]), abs=1e-4)
    assert all(notes["phase_seconds"][name] >= seconds for name, seconds in earlier.items())
    assert whole.history == resumed.history
