"""The whole theory experiment."""

import importlib
import json

from songrank_paper.experiment import Plan
from songrank_paper.theory import Theory
from songrank_paper.theory.estimation import ERRORS, ESTIMATORS
from tests.songrank_paper.theory.small_problem import HERE, TINY

TABLES = {"estimation", "forms", "slopes", "tolerances", "less-noise", "still", "speed-up", "cost"}
TABLES |= {"threshold-gradient", "lemmas"}


def run_all(experiment, plan):
    found = {}
    while missing := [cell for cell in experiment.cells(plan, found) if cell.key not in found]:
        for cell in missing:
            module, function = cell.work.split(":")
            options = json.loads(json.dumps(cell.options))
            result = getattr(importlib.import_module(module), function)(HERE, **options)
            found[cell.key] = json.loads(json.dumps(result))
    return found


def test_the_whole_experiment_runs_and_shows_every_part():
    experiment, plan = Theory(TINY), Plan(quick=True)
    found = run_all(experiment, plan)
    assert not [cell for cell in experiment.cells(plan, found) if cell.key not in found]
    shown = experiment.show(plan, found)
    assert set(shown.tables) == TABLES
    assert set(shown.figures) == {"estimation", "forms", "convergence", "speed-up", "cost"}
    assert all(len(row) == len(table.columns) for table in shown.tables.values() for row in table.rows)
    assert len(shown.tables["estimation"].rows) == len(ERRORS) * len(ESTIMATORS)
    compared = {(row[0], row[1]): row[3] for row in shown.tables["cost"].rows}
    assert compared["SONG", 100] == compared["SONG", 200]
    theorems = {row[0]: row[3] for row in shown.tables["slopes"].rows if row[3] != "none"}
    printed = {"SONG, printed": "-0.50", "K-SONG, printed": "-0.50"}
    assert theorems == printed | {"Faster SONG, printed": "-0.67", "Faster K-SONG, printed": "-0.67"}
    assert compared["full lists", 200] == 2 * compared["full lists", 100]
    for name, figure in shown.figures.items():
        assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes), name
