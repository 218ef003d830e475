"""The theory's experiments: estimators, descents and the whole, on lists short enough to wait for."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from songrank_paper.experiment import Plan
from songrank_paper.theory import Theory
from songrank_paper.theory.descent import descend
from songrank_paper.theory.estimation import ERRORS, ESTIMATORS, follow
from songrank_paper.theory.methods import METHODS, stepper
from songrank_paper.theory.problem import FEATURES, QUERIES, make_problem
from songrank_paper.theory.protocol import QUICK
from songrank_paper.theory.runs import Draws, Scorer
from songrank_paper.theory.still import fixed_point, stand_still
from songrank_paper.theory.tuned import Tuned

HERE = Path()
PROBLEM = make_problem()
TINY = replace(
    QUICK,
    seeds=(0, 1),
    tuning_seeds=(100,),
    rates=(0.3,),
    memories=(0.1,),
    steps=12,
    fit_from=5,
    speed_steps=8,
    speed_memories=(0.1,),
    batches=(2,),
    irrelevants=(4,),
    replay_steps=8,
    gammas=(0.3,),
    still_steps=4,
    still_seeds=2,
    list_sizes=(100, 200),
    repeats=1,
)


def run_all(experiment, plan):
    found = {}
    while missing := [cell for cell in experiment.cells(plan, found) if cell.key not in found]:
        for cell in missing:
            module, function = cell.work.split(":")
            options = json.loads(json.dumps(cell.options))
            result = getattr(importlib.import_module(module), function)(HERE, **options)
            found[cell.key] = json.loads(json.dumps(result))
    return found


def still_path(steps):
    return fixed_point(PROBLEM).expand(steps, FEATURES)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_whole_lists_of_all_queries_leave_no_error(estimator):
    still = follow(PROBLEM, still_path(12), estimator, 0.3, (0,), QUERIES, "all")
    assert max(still["u"][0]) < 1e-20
    assert still["λ"][0][-1] < 0.5 * still["λ"][0][0]


def test_on_a_moving_point_whole_lists_leave_what_each_estimator_misses():
    moving = torch.linspace(0.0, 0.05, 6, dtype=torch.float64).unsqueeze(1).expand(6, FEATURES)
    last = {}
    for estimator in ESTIMATORS:
        last[estimator] = follow(PROBLEM, moving, estimator, 0.3, (0,), QUERIES, "all")["u"][0][-1]
    assert last["STORM"] < 1e-20
    assert last["MSVR"] < 1e-20
    assert 0 < last["MSVR-SP"] < 0.01 * last["moving average"], "second order in the step, against first"


def test_at_a_fixed_point_the_moving_averages_error_falls_to_what_gamma_leaves():
    late = {}
    for gamma in (0.3, 0.05):
        found = follow(PROBLEM, still_path(150), "moving average", gamma, (0, 1), 25, 8)
        u = torch.tensor(found["u"]).mean(0)
        at = found["steps"].index(1)
        late[gamma] = float(u[-5:].mean() / u[at])
    # Its variance is γ/(2 − γ) of a single estimate's.
    assert late[0.3] == pytest.approx(0.3 / 1.7, rel=0.35)
    assert late[0.05] == pytest.approx(0.05 / 1.95, rel=0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_descent_is_a_function_of_its_options(method):
    options = {"method": method, "a": 0.1, "rates": [0.3, 0.1], "seeds": [0, 1], "steps": 4}
    first = descend(HERE, **options, batch=5, irrelevant=8)
    assert first == descend(HERE, **options, batch=5, irrelevant=8)
    assert first["mean"][0][0] != first["mean"][0][1], "seeds differ"
    assert first["mean"][0] != first["mean"][1], "rates differ"
    start = float(
        PROBLEM.squared_gradient(torch.zeros(1, FEATURES, dtype=torch.float64), top_k=METHODS[method].top_k)[0]
    )
    assert first["mean"][0][0][0] == pytest.approx(start, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_whole_lists_of_all_queries_make_every_method_gradient_descent_at_first(method):
    """With nothing sampled the first step goes along the exact gradient, for F as for F_K at equal scores."""
    draws = Draws(PROBLEM, QUERIES, "all", (0,), 10 if METHODS[method].top_k else None)
    scorer = Scorer(PROBLEM, 1, 1)
    running = stepper(method, scorer, draws, 0.5, [0.5])
    exact = PROBLEM.gradient(scorer.weights(), top_k=METHODS[method].top_k)
    running.step(next(iter(draws.steps(1))))
    if METHODS[method].top_k:  # λ starts at the (K+1)-th largest score, not at λ̂
        cosine = torch.nn.functional.cosine_similarity(running.momentum(), exact)
        assert float(cosine) > 0.95
    else:
        torch.testing.assert_close(running.momentum(), exact, rtol=1e-6, atol=1e-9)


def test_lagged_momentum_is_unbiased_where_the_printed_one_is_not():
    options = {"a": 0.1, "seeds": list(range(300, 364)), "steps": 100, "batch": 5, "irrelevant": 8}
    printed = stand_still(HERE, method="faster-song", **options)
    lagged = stand_still(HERE, method="lagged-faster-song", **options)
    assert printed["bias"] > 4 * printed["error"]
    assert lagged["bias"] < 4 * lagged["error"]
    assert printed["bias"] > 3 * lagged["bias"]


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


def test_the_whole_experiment_runs_and_shows_every_part():
    experiment, plan = Theory(TINY), Plan(quick=True)
    found = run_all(experiment, plan)
    assert not [cell for cell in experiment.cells(plan, found) if cell.key not in found]
    shown = experiment.show(plan, found)
    assert set(shown.tables) == {"estimation", "slopes", "tolerances", "still", "speed-up", "cost"}
    assert set(shown.figures) == {"estimation", "convergence", "speed-up", "cost"}
    assert all(len(row) == len(table.columns) for table in shown.tables.values() for row in table.rows)
    assert len(shown.tables["estimation"].rows) == len(ERRORS) * len(ESTIMATORS)
    compared = {(row[0], row[1]): row[3] for row in shown.tables["cost"].rows}
    assert compared["SONG", 100] == compared["SONG", 200]
    assert compared["full lists", 200] == 2 * compared["full lists", 100]
    for name, figure in shown.figures.items():
        assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes), name
