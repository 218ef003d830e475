"""Processes of a job: what they exchange, and how they fail together; real processes over gloo."""

from pathlib import Path

import pytest
import torch

from songrank.core.errors import UserError
from songrank.core.processes import Processes, balanced_ranges, joined, processes
from tests.processes import run_processes

WORK = Path(__file__).with_name("shared_work.py")


def said(what, world=2):
    return [done.stdout.splitlines() for done in run_processes(world, WORK, what)]


def test_they_exchange_rows_texts_and_sums():
    rows, texts = [0, 10, 11, 20, 21, 22], ["", "é", "éé"]
    lines = said("exchange", 3)
    expected = [(range(1), 0.1 + 0.2), (range(1, 3), 0.1 + 0.2), (range(3, 5), 0.1 + 0.2)]
    for line, (own, total) in zip(lines, expected, strict=True):
        assert line[0].startswith(f"{rows} {texts} {list(own)} ")
        assert float(line[0].rpartition(" ")[2]) == pytest.approx(total, abs=1e-15)


def test_a_failure_of_one_process_is_raised_by_all():
    """Also from within a block in which the others wait at an inner one."""
    message = "process 1: x: is wrong; repair it"
    assert said("nested") == [[f"UserError 2 {message}"], [f"ReportedError 2 {message}"]]


def test_a_failure_of_all_processes_is_reported_once():
    first, second = said("everywhere")
    assert first == ["DataError 2 y: is missing; copy it"]
    assert second[0].startswith("ReportedError")


def test_a_bug_in_one_process_shows_where_it_is_and_ends_the_other():
    first, second = run_processes(2, WORK, "bug")
    assert first.stdout.splitlines()[1:] == ["UserError 1 process 1: IndexError: list index out of range"]
    assert second.returncode == 1
    assert "print([0][own.rank])" in second.stderr


def test_an_error_that_is_converted_on_the_way_is_not_exchanged_again():
    first, second = run_processes(2, WORK, "converted")
    assert first.stdout.splitlines()[1:] == ["UserError 2 process 1: IndexError: list index out of range"]
    assert "print([0][own.rank])" in second.stderr


def test_a_killed_process_does_not_leave_the_other_waiting():
    first, second = run_processes(2, WORK, "killed")
    assert second.returncode == -9
    assert first.stdout.startswith("LostProcessError 1 another process has ended or cannot be reached (")
    assert first.stdout.count("\n") == 1


def test_one_process_raises_its_own_error(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(KeyError), joined("cpu") as own, own.agreed():
        raise KeyError
    assert processes() == own == Processes()


def test_an_environment_without_a_rank(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(UserError, match="WORLD_SIZE is above 1, but RANK is not set; start the command with torchrun"):
        joined("cpu").__enter__()


@pytest.mark.parametrize(("count", "world"), [(0, 3), (2, 5), (7, 3), (12, 4)])
def test_shares_are_consecutive_and_even(count, world):
    parts = list(range(count))
    shares = [Processes(rank, world).share(parts) for rank in range(world)]
    assert [part for share in shares for part in share] == parts
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("world", [1, 2, 7])
def test_balanced_ranges_cover_all_queries(world):
    sizes = torch.randint(0, 50, (200,), generator=torch.Generator().manual_seed(0))
    ranges = balanced_ranges(sizes, world)
    assert [first for first, _ in ranges] == [0, *(last for _, last in ranges[:-1])]
    assert ranges[-1][1] == 200
    assert max(int(sizes[first:last].sum()) for first, last in ranges) <= int(sizes.sum()) / world + 50
