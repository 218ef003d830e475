"""The job of a process, as its launcher describes it."""

import pytest

from songrank.core.errors import ReportedError, UserError
from songrank.core.launch import is_first, need_one_process, world_and_rank

MESSAGE = "the search runs in one process, not 3; start one"


def set_job(monkeypatch, world, rank):
    monkeypatch.setenv("WORLD_SIZE", world)
    monkeypatch.setenv("RANK", rank)


def test_one_process_may_do_everything(monkeypatch):
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    need_one_process("the search", "start one", once=True)
    assert (world_and_rank(), is_first()) == ((1, 0), True)


@pytest.mark.parametrize(("rank", "printed"), [("0", UserError), ("2", ReportedError)])
def test_several_processes_are_rejected(rank, printed, monkeypatch):
    set_job(monkeypatch, "3", rank)
    assert (world_and_rank(), is_first()) == ((3, int(rank)), rank == "0")
    for once, kind in ((False, UserError), (True, printed)):
        with pytest.raises(UserError, match=MESSAGE) as found:
            need_one_process("the search", "start one", once=once)
        assert (type(found.value), found.value.exit_code) == (kind, 2)


def test_an_invalid_environment_is_named(monkeypatch):
    set_job(monkeypatch, "many", "0")
    with pytest.raises(UserError, match="the environment variable WORLD_SIZE is 'many'; expected a whole number"):
        world_and_rank()
