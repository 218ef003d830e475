"""Helpers that tests of several modules share."""

from songrank_paper.cells import Store, results, run_cells
from songrank_paper.workers import Workers


def made(experiment, plan, folder):
    found = results(run_cells([experiment], plan, Store(folder / "cells"), Workers()))
    return experiment.show(plan, found)
