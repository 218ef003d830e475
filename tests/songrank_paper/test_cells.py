"""Cells: done once, whatever happens in between, and the same whoever does them."""

import json
import os
from dataclasses import replace

import pytest

from songrank.core.errors import UserError
from songrank_paper.cells import Store, results, run_cells
from songrank_paper.experiment import Cell, Experiment, Plan
from songrank_paper.workers import Workers
from tests.songrank_paper.small_cells import PLAN, Seen, of, serially, stamps
from tests.songrank_paper.tiny import cell


def test_a_round_may_depend_on_the_round_before(tmp_path):
    done, seen = serially(tmp_path)
    assert seen.names == ["seed 0", "seed 1", "seed 2", "best"]
    assert seen.counts == [(0, 3), (3, 4), (4, 4)]
    norms = [one.result["norm"] for one in done.values()]
    assert norms[3] == max(norms[:3])


def test_what_is_done_is_not_done_again(tmp_path):
    first, _ = serially(tmp_path)
    before = stamps(tmp_path)
    again, seen = serially(tmp_path)
    assert again == first
    assert seen.names == []
    assert stamps(tmp_path) == before


def test_a_result_is_the_same_when_it_is_made_and_when_it_is_read(tmp_path):
    made, _ = serially(tmp_path)
    assert [one.result["pair"] for one in made.values() if "pair" in one.result] == [[1, None]]
    assert results(serially(tmp_path)[0]) == results(made)


def test_only_what_is_missing_is_done(tmp_path):
    serially(tmp_path, plan=Plan(seeds=(0, 2)))
    before = stamps(tmp_path)
    _, seen = serially(tmp_path)
    assert seen.names[0] == "seed 1"
    assert "seed 0" not in seen.names
    assert before.items() <= stamps(tmp_path).items()


@pytest.mark.parametrize(
    "content", ["", '{"name": "seed 1", "wo', "[]", '{"work": 1}', '{"result": {}, "work": "a:b", "options": {}}']
)
def test_a_damaged_result_is_done_again_and_said_so(tmp_path, content):
    made, _ = serially(tmp_path)
    file = tmp_path / cell(1).key / "result.json"
    file.write_text(content)
    before, said = stamps(tmp_path), []
    again, seen = serially(tmp_path, warn=said.append)
    assert seen.names == ["seed 1"]
    assert results(again) == results(made)
    assert len(said) == 1
    assert str(file) in said[0]
    assert said[0].endswith("the cell is run again")
    changed = {key for key, stamp in stamps(tmp_path).items() if before[key] != stamp}
    assert changed == {cell(1).key}


def test_the_result_of_other_work_is_not_taken(tmp_path):
    made, _ = serially(tmp_path)
    (tmp_path / cell(1).key / "result.json").write_bytes((tmp_path / cell(0).key / "result.json").read_bytes())
    said = []
    again, _ = serially(tmp_path, warn=said.append)
    assert "belongs to another cell" in said[0]
    assert results(again) == results(made)


def test_cells_that_are_timed_are_done_after_the_others_in_this_process(tmp_path, pair):
    timed, seen = replace(cell(0), timed=True), Seen()
    assert timed.key == cell(0).key
    run_cells([of(timed, cell(1))], PLAN, Store(tmp_path), pair, seen)
    assert seen.names == ["seed 1", "seed 0"]
    pids = [(tmp_path / cell(seed).key / "pid").read_text() for seed in (0, 1)]
    assert pids[0] == str(os.getpid()) != pids[1]


def test_a_file_in_the_place_of_the_cells_is_said_in_one_line(tmp_path):
    (tmp_path / "cells").write_text("mine")
    with pytest.raises(UserError, match="cannot be written"):
        serially(tmp_path / "cells")
    assert (tmp_path / "cells").read_text() == "mine"


def test_the_same_work_of_two_experiments_is_done_once(tmp_path):
    serially(tmp_path, of(cell(0), cell(1)))
    _, seen = serially(tmp_path, of(cell(1), cell(2), Cell("another name", cell(2).work, cell(2).options)))
    assert len(seen.names) == 1


def test_what_is_ready_waits_for_nothing_that_it_does_not_need(tmp_path, pair):
    first, second = (Cell(name, "tests.songrank_paper.tiny:shift", {"by": name}) for name in ("first", "second"))
    patient = Cell("patient", "tests.songrank_paper.tiny:wait_for", {"key": second.key})

    class Chain(Experiment):
        name = title = "chain"

        def cells(self, plan, found):
            return [patient, first, *([second] if first.key in found else [])]

        def show(self, plan, found):
            raise NotImplementedError

    seen = Seen()
    done = run_cells([Chain()], PLAN, Store(tmp_path), pair, seen)
    assert seen.names == ["first", "second", "patient"]
    assert done[patient.key].result == {"seen": True}


@pytest.mark.parametrize("jobs", [1, 2])
def test_experiments_are_complete_as_soon_as_their_own_cells_are(tmp_path, jobs, pair):
    timed = replace(cell(5), timed=True)
    experiments = [of(timed, cell(0)), of(cell(0), cell(1)), of(cell(2))]
    seen, complete = Seen(), []

    def note(experiment, done):
        complete.append((experiments.index(experiment), set(done), list(seen.names)))

    found = run_cells(experiments, PLAN, Store(tmp_path), pair if jobs == 2 else Workers(), seen, note)
    assert sorted(at for at, _, _ in complete) == [0, 1, 2]
    assert complete[-1] == (0, {timed.key, cell(0).key}, seen.names)
    assert all("seed 5" not in names for _, _, names in complete[:-1])
    assert set(found) == {cell(seed).key for seed in (0, 1, 2, 5)}
    assert len(seen.names) == 4


def test_a_result_says_what_it_is_of(tmp_path):
    serially(tmp_path)
    told = json.loads((tmp_path / cell(2).key / "result.json").read_text())
    assert told["name"] == "seed 2"
    assert told["options"] == {"seed": 2, "epochs": 20}
    assert told["seconds"] >= 0
    assert told["machine"]
    assert {"songrank", "torch", "work", "result"} <= set(told)
