"""What tests of experiments that train share: small sets, small models, and cells done in this process."""

import json

from songrank.data import prepare
from songrank_paper.cells import do_cell
from songrank_paper.experiment import Plan
from songrank_paper.methods import Setting

TINY = ("model.dim=4", "warm_up.epochs=2", "fine_tuning.epochs=3", "fine_tuning.decay={2: 0.25}", "validation.every=1")
"""Changes that make a run of a table or figure take a tenth of a second."""

TINY_LABELS = ("model.hidden=[8]", *TINY[1:])


def users(folder, seed=0):
    prepare("synthetic", None, folder, queries=40, items=30, pairs=400, seed=seed)
    return folder


def lists(folder):
    prepare("synthetic", None, folder, task="search", queries=50, items=400, features=6)
    return folder


def texts(folder, seed=0):
    options = {"queries": 90, "items": 20, "pairs": 200, "features": 40, "words": 8}
    prepare("synthetic", None, folder, task="labelling", seed=seed, **options)
    return folder


def plan(seeds=(0, 1), **data):
    """A quick one; names of sets are written with underscores."""
    return Plan(quick=True, data={name.replace("_", "-"): path for name, path in data.items()}, seeds=seeds)


def done(cell, folder):
    """The result of a cell, which is worked on if there is none in the folder."""
    file = folder / cell.key / "result.json"
    if not file.exists():
        do_cell(cell, file.parent)
    return json.loads(file.read_text())["result"]


def do(experiment, plan, folder):
    """Results of all cells that an experiment asks for, one after the other, and what it shows of them."""
    found = {}
    while missing := [cell for cell in experiment.cells(plan, found) if cell.key not in found]:
        found |= {cell.key: done(cell, folder / "cells") for cell in missing}
    return found, experiment.show(plan, found)


def recipes(lines):
    return {label: [one.cell.options["recipe"] for one in trainings] for label, trainings in lines.items()}


def chosen_first(figure, each, found=()):
    """Results by which the first setting of every method is chosen."""
    results = dict(found)
    for method in figure.tuned(each):
        for place, training in enumerate(each.tuning(method).values()):
            results[training.cell.key] = {"metrics": {"validation": {each.chosen_by: 0.5 - 0.1 * place}}}
    return results


SONG = Setting(("loss=song", "loss.gamma=0.3"))
