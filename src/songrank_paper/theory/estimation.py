"""(a) Estimation errors of u, λ and s on a trajectory that all estimators share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.ksong import KSONG
from songrank.losses.paper_form import FasterForm, PaperForm
from songrank.losses.top_k import ThresholdOptions
from songrank.training.optim.two_points import directional
from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.descent import measured_steps
from songrank_paper.theory.figures import STYLES, banded, log_axes, panels, thinned
from songrank_paper.theory.methods import EQUATION_5, SMOOTHING, THRESHOLD_RATE, TOP_K, stepper
from songrank_paper.theory.problem import K, Problem, make_problem
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.runs import Draws, Scorer

ESTIMATORS = {"moving average": "moving_average", "STORM": "storm", "MSVR": "msvr", "MSVR-SP": "msvr"}
ERRORS = {"u": "‖u − g‖²", "λ": "‖λ − λ̂‖²", "s": "‖s − ∇²L‖²"}
TRAJECTORY = {"a": 0.01, "rate": 0.02, "seed": 99}
"""The run of SONG whose iterates are replayed."""


def replay(
    folder: Path, *, estimator: str, gamma: float, seeds: Sequence[int], steps: int, batch: int, irrelevant: int | str
) -> dict[str, Any]:
    """Follow the trajectory with an estimator; u, s and ∇_λL share γ, and the step of λ is always 2γ.

    Returns:
        ``steps``, and by error, seed and step the mean squared error after the step, over the pairs (u) or queries
        (λ, s) drawn so far.
    """
    torch.set_num_threads(1)
    return follow(make_problem(), trajectory(steps, batch), estimator, gamma, seeds, batch, irrelevant)


@lru_cache
def trajectory(steps: int, batch: int) -> Tensor:
    """[steps, d]: w_1, w_2, … of a run of SONG with eight irrelevant items."""
    problem = make_problem()
    draws = Draws(problem, batch, 8, (int(TRAJECTORY["seed"]),))
    scorer = Scorer(problem, 1, 1)
    song = stepper("song", scorer, draws, TRAJECTORY["a"], [TRAJECTORY["rate"]])
    found = []
    for slate in draws.steps(steps):
        found.append(scorer.weights().detach())
        song.step(slate)
    return torch.cat(found)


def follow(
    problem: Problem,
    path: Tensor,
    estimator: str,
    gamma: float,
    seeds: Sequence[int],
    batch: int,
    irrelevant: int | str,
) -> dict[str, Any]:
    """:func:`replay` on any trajectory [steps, d]."""
    draws = Draws(problem, batch, irrelevant, seeds, K)
    scorer = Scorer(problem, 1, len(seeds))
    (weight,) = scorer.runs
    loss = _loss(problem, estimator, gamma, len(seeds), batch)
    times = measured_steps(len(path))
    wanted, errors = set(times), []
    for t, slate in enumerate(draws.steps(len(path)), start=1):
        now, last = path[t - 1], path[max(t - 2, 0)]
        with torch.no_grad():
            weight.copy_(now.expand_as(weight))
        where = slate.query, slate.item
        if estimator == "moving average":
            loss(scorer(*where), slate)
        elif estimator == "MSVR-SP":
            step = {"runs.0": (now - last).expand_as(weight).contiguous()}
            scores, change = directional(scorer, step, lambda model, where=where: model(*where))  # type: ignore[misc]
            loss(scores, slate, change=change)
        else:
            loss(scorer(*where), slate, before=functional_call(scorer, {"runs.0": last.expand_as(weight)}, where))
        if t in wanted:
            errors.append(_errors(problem, loss, now, len(seeds)))
    found = torch.stack(errors, -1)
    return {"steps": times, **{name: found[at].tolist() for at, name in enumerate(ERRORS)}}


def _loss(problem: Problem, estimator: str, gamma: float, seeds: int, batch: int) -> KSONG:
    rows = seeds * problem.relevance.num_pairs, seeds * problem.relevance.num_queries
    threshold = ThresholdOptions(THRESHOLD_RATE * gamma, gamma, **SMOOTHING)
    if estimator == "moving average":
        return KSONG(*rows, K, gamma, threshold=threshold, form=PaperForm(**EQUATION_5), **TOP_K)
    form = FasterForm(memory=ESTIMATORS[estimator], **EQUATION_5)
    return FasterKSONG(*rows, K, seeds * batch, gamma, threshold=threshold, form=form, **TOP_K)


def _errors(problem: Problem, loss: KSONG, weight: Tensor, seeds: int) -> Tensor:
    """[errors, seeds]."""
    scores = problem.scores(weight.unsqueeze(0))
    threshold = problem.threshold(scores)
    u = loss.u.read().view(seeds, -1)[:, problem.pair_order.reshape(-1)]
    exact = (problem.ranks(scores).flatten(), threshold[0], problem.curvature(threshold, scores)[0])
    tracked = (u, loss.threshold.read().view(seeds, -1), loss.curvature.read().view(seeds, -1))
    return torch.stack([(a - b).square().nanmean(1) for a, b in zip(tracked, exact, strict=True)])


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """Each estimator with each γ on the tuning seeds, then with the best γ for each error."""
    tuning = {name: _cells(protocol, name, protocol.gammas, protocol.tuning_seeds) for name in ESTIMATORS}
    wanted = [cell for cells in tuning.values() for cell in cells]
    if all(cell.key in found for cell in wanted):
        for name in ESTIMATORS:
            best = sorted({_best(protocol, found, name, error) for error in ERRORS})
            wanted += _cells(protocol, name, best, protocol.seeds)
    return wanted


def _cells(protocol: Protocol, estimator: str, gammas: Sequence[float], seeds: Sequence[int]) -> list[Cell]:
    sizes = {"steps": protocol.replay_steps, "batch": protocol.batch, "irrelevant": protocol.irrelevant}
    return [
        Cell(
            f"{estimator}, γ {gamma:g}, seeds from {seeds[0]}",
            "songrank_paper.theory.estimation:replay",
            {"estimator": estimator, "gamma": gamma, "seeds": list(seeds), **sizes},
        )
        for gamma in gammas
    ]


def _best(protocol: Protocol, found: Found, estimator: str, error: str) -> float:
    """The γ with the smallest error on the tuning seeds, over the second half of the steps."""
    cells = _cells(protocol, estimator, protocol.gammas, protocol.tuning_seeds)
    errors = [_late(found[cell.key], error).mean() for cell in cells]
    return protocol.gammas[int(torch.stack(errors).nan_to_num(torch.inf).argmin())]


def _late(result: Mapping[str, Any], error: str) -> Tensor:
    """[seeds]: the mean over the second half of the steps."""
    late = [at for at, step in enumerate(result["steps"]) if 2 * step >= result["steps"][-1]]
    return torch.tensor(result[error])[:, late].mean(1)


def show(protocol: Protocol, found: Found) -> Findings:
    """The three errors over time, each estimator with its best γ."""
    figure, axes = panels(len(ERRORS))
    rows: list[list[str | float | int | None]] = []
    remarks = []
    for place, (error, title) in zip(axes, ERRORS.items(), strict=True):
        log_axes(place, title, "step t", "mean squared error")
        ends = {}
        for name, style in zip(ESTIMATORS, STYLES, strict=False):
            gamma = _best(protocol, found, name, error)
            result = found[_cells(protocol, name, [gamma], protocol.seeds)[0].key]
            values = torch.tensor(result[error])
            at = thinned(result["steps"], 10)
            banded(place, [result["steps"][i] for i in at], values[:, at], f"{name}, γ = {gamma:g}", style)
            end = _late(result, error)
            ends[name] = float(end.mean())
            rows.append([title, name, gamma, f"{ends[name]:.2e}", f"{float(end.std()):.0e}"])
        place.legend(fontsize=7)
        order = sorted(ends, key=lambda name: ends[name])
        remarks.append(f"{title} is smallest with {order[0]}, then " + ", ".join(order[1:]) + ".")
    table = Table("Errors over the second half of the steps", ["error", "estimator", "γ", "mean", "± seeds"], rows)
    return Findings(remarks, {"estimation": table}, {"estimation": figure})
