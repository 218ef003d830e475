"""Helpers that tests of several modules share."""

from dataclasses import replace
from pathlib import Path

from songrank_paper.theory.problem import FEATURES, make_problem
from songrank_paper.theory.protocol import QUICK
from songrank_paper.theory.still import fixed_point

PROBLEM = make_problem()


def still_path(steps):
    return fixed_point(PROBLEM).expand(steps, FEATURES)


HERE = Path()

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
    lemma_runs=2,
    lemma_steps=8,
    ratio_lists=1,
    ratio_draws=60,
    forms_steps=12,
    quiet_steps=8,
)
