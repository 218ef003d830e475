"""The figure of time per step."""

import pytest

from songrank_paper.complexity import FigComplexity, measure
from songrank_paper.experiment import Plan


@pytest.mark.parametrize("what", ["loss", "step"])
@pytest.mark.parametrize("loss", ["song", "k-song", "bce"])
def test_steps_of_every_kind_are_measured(tmp_path, loss, what):
    base = {"queries": 4, "irrelevant": 5, "items": 120}
    found = measure(tmp_path, loss, what, "irrelevant", [5, 10], base, 2, "cpu")
    assert found["points"] == [5, 10]
    assert all(0 < value < 1e4 for value in found["milliseconds"])


def test_exponents_are_those_of_the_curves_and_theory_stands_beside():
    experiment, plan, found = FigComplexity(), Plan(quick=True), {}
    powers = {"queries": 1.0, "irrelevant": 0.5, "items": 0.0}
    for cell in experiment.cells(plan, {}):
        points = cell.options["points"]
        taken = [3.0 * point ** powers[cell.options["size"]] for point in points]
        found[cell.key] = {"points": points, "milliseconds": taken}
    shown = experiment.show(plan, found)
    for row in shown.tables["exponents"].rows:
        expected = {"queries per step": (1.0, 1), "N_q, items per list": (0.0, 0)}.get(row[2], (0.5, 1))
        assert (row[-2], row[-1]) == (pytest.approx(expected[0], abs=1e-9), expected[1])
    for figure in shown.figures.values():
        assert [axes.get_xscale() for axes in figure.axes] == ["log"] * 3
