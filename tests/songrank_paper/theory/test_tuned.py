"""Constants tuned on seeds of their own."""

from dataclasses import replace

import pytest

from songrank_paper.theory.tuned import Tuned
from tests.songrank_paper.theory.small_problem import TINY


def test_constants_are_chosen_on_tuning_seeds_and_shown_on_others():
    protocol = replace(TINY, memories=(0.1, 1.0), rates=(0.3, 0.1))
    found = {}
    study = Tuned("song", protocol, 5, 8, 3, found)
    assert [cell.options["seeds"] for cell in study.cells()] == [[100], [100]]
    steps = [1, 2, 3]
    for cell, means in zip(study.tuning, ([[9, 8, 7], [9, 2, 7]], [[9, 8, 1], [3, 8, 7]]), strict=True):
        found[cell.key] = {"steps": steps, "mean": [[row] for row in means], "value": [[0.0], [0.0]]}
    study = Tuned("song", protocol, 5, 8, 3, found)
    assert study.chosen == [(1.0, 0.1), (0.1, 0.1), (1.0, 0.3)]
    reported = study.cells()[2:]
    assert all(cell.options["seeds"] == [0, 1] for cell in reported)
    for cell in reported:
        rows = [[[cell.options["a"] + rate + t for t in steps]] * 2 for rate in cell.options["rates"]]
        found[cell.key] = {"steps": steps, "mean": rows, "value": [[0.0, 0.0]] * len(rows)}
    assert study.curve()[0].tolist() == pytest.approx([1.0 + 0.1 + 1, 0.1 + 0.1 + 2, 1.0 + 0.3 + 3])
