"""A few kills of processes of torchrun; ``python -m tests.robustness.killed_processes`` does 20 at random moments."""

import sys

import pytest

from tests.robustness.killed_processes import check_finished, history, made_data, one_try, words_of

EPOCHS = 60


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")
def test_a_run_whose_processes_are_killed_resumes_on_other_numbers_of_them(tmp_path, songrank):
    data, run = made_data(tmp_path), tmp_path / "run"
    for world, rank, lines in ((3, 1, 5), (2, 0, 20)):
        found = one_try(tmp_path, run, words_of(run, data, EPOCHS), world, rank, lambda n=lines: len(history(run)) >= n)
        assert found.code == 1, found.errors
        assert lines <= found.epochs < EPOCHS + 3
    assert songrank("train", "--resume", run).returncode == 0
    check_finished(run, EPOCHS)
