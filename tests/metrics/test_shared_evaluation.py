"""An evaluation that several processes share is that of one process, bit for bit."""

import pytest

from tests.metrics import shared_evaluation
from tests.processes import run_processes

SHARED = ["catalogue", "few queries", "sampled", "lists", "own ranges"]


@pytest.fixture(scope="module")
def alone():
    """The lines of one process."""
    return run_processes(1, shared_evaluation.__file__, *SHARED)[0].stdout


@pytest.mark.parametrize("world", [2, 4])
def test_all_processes_have_the_result_of_one(world, alone):
    assert alone.count("\n") == len(SHARED)
    for done in run_processes(world, shared_evaluation.__file__, *SHARED):
        assert done.stdout == alone, done.stderr


def test_a_score_that_is_nan_in_one_process_is_an_error_of_all():
    told = sorted(done.stdout for done in run_processes(2, shared_evaluation.__file__, "nan"))
    assert all("NotFiniteError" in line and "score_all for query 200" in line for line in told)
    assert {line.split()[0] for line in told} in ({"NotFiniteError", "UserError"}, {"NotFiniteError", "ReportedError"})
