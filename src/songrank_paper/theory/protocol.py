"""The protocol, fixed before the reported runs: sizes, seeds, tolerances, and constants to try."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """The protocol of all parts; by default the full one.

    Every method is tuned over the same ``rates`` × ``memories``, only on ``tuning_seeds``. The ranges were set by
    results on tuning seeds; reported runs use ``seeds``.

    Args:
        seeds: seeds of the reported runs.
        tuning_seeds: seeds of the tuning runs.
        rates: learning rates.
        memories: values of a (``methods.stepper``).
        steps: largest T.
        fit_from: smallest T of the fit of slopes.
        batch: |B|, queries per step.
        irrelevant: |B_q|, irrelevant items per query.
        tolerances: ε, for ‖∇F‖ ≤ ε.
        speed_steps: largest T of the speed-up experiment, where |B| and |B_q| vary.
        speed_memories: values of a in the speed-up experiment.
        speed_tolerances: ε in the speed-up experiment.
        batches: values of |B|.
        irrelevants: values of |B_q|.
        replay_steps: length of the trajectory on which estimators are compared.
        gammas: values of γ for each estimator.
        still_steps: steps of momentum at a fixed point.
        still_seeds: number of seeds of its mean.
        list_sizes: values of N_q in the cost experiment.
        repeats: number of timed steps, of which the median is reported.
        lemma_runs: number of runs of Algorithm 2 over which the lemmas take means.
        lemma_steps: their number of steps.
        ratio_lists: number of lists on which estimators of ∇λ are compared.
        ratio_draws: number of samples of each list.
        forms_steps: number of steps of the faster forms without noise.
        quiet_steps: largest T of the runs with less noise.

    >>> len(Protocol().rates) * len(Protocol().memories)
    15
    """

    seeds: tuple[int, ...] = (10, 11, 12, 13, 14, 15, 16, 17)
    tuning_seeds: tuple[int, ...] = (100, 101, 102)
    rates: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01)
    memories: tuple[float, ...] = (1.0, 0.1, 0.03)
    steps: int = 4000
    fit_from: int = 300
    batch: int = 5
    irrelevant: int = 8
    tolerances: tuple[float, ...] = (0.12, 0.10, 0.08, 0.07, 0.06, 0.05, 0.045, 0.04)
    speed_steps: int = 3000
    speed_memories: tuple[float, ...] = (0.1, 0.01)
    speed_tolerances: tuple[float, ...] = (0.1, 0.08, 0.06)
    batches: tuple[int, ...] = (1, 2, 5, 10, 25, 50)
    irrelevants: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 74)
    replay_steps: int = 1500
    gammas: tuple[float, ...] = (0.3, 0.1, 0.03)
    still_steps: int = 800
    still_seeds: int = 32
    list_sizes: tuple[int, ...] = (300, 1000, 3000, 10_000, 30_000)
    repeats: int = 30
    lemma_runs: int = 16
    lemma_steps: int = 300
    ratio_lists: int = 20
    ratio_draws: int = 3000
    forms_steps: int = 1000
    quiet_steps: int = 2000


FULL = Protocol()
QUICK = Protocol(
    seeds=(0, 1, 2),
    tuning_seeds=(100, 101),
    rates=(0.3, 0.03),
    memories=(0.1, 0.01),
    steps=300,
    fit_from=100,
    tolerances=(0.12, 0.10, 0.08),
    speed_steps=200,
    speed_tolerances=(0.12,),
    batches=(2, 10, 50),
    irrelevants=(2, 8, 74),
    replay_steps=200,
    gammas=(0.3, 0.1),
    still_steps=200,
    still_seeds=16,
    list_sizes=(300, 3000),
    repeats=5,
    lemma_runs=4,
    lemma_steps=60,
    ratio_lists=4,
    ratio_draws=500,
    forms_steps=100,
    quiet_steps=100,
)
