r"""(f) Bias of ∇λ on a sampled slate, by estimator.

∇λ = Σ_j w_j φ″(h_j − λ) ∇h_j / H with H = τ₂ + Σ_j w_j φ″(h_j − λ) is a ratio of sums over the list. On a slate both
are unbiased; their ratio is not, if few sampled items are near λ. A_j = w_j φ″(h_j − λ) and B = Σ_j A_j of the slate:

===============  ================================================================================================
estimator        coefficient of ∇h_j
===============  ================================================================================================
``slate``        A_j / (τ₂ + B), the default of K-SONG (``form.implicit="slate"``)
``normalised``   A_j / B
``jackknife``    m · slate − (m − 1) · mean over i of the same without item i
``memory``       A_j / s, s the moving average of τ₂ + B from before the visit
``regression``   A_j / s + (1 − B/s) v_j,   v_j ∝ w_j φ″ of temperature 4 τ₁,   Σ v = 1
===============  ================================================================================================

The sum of the coefficients should be 1 − τ₂/H, about 1: a shift of all scores shifts λ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.functional.threshold import ThresholdProblem, smooth_threshold
from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.protocol import Protocol

LIST_SIZE, EPSILON, TAU1, TAU2 = 4000, 0.5, 0.1, 1e-4
"""Length of the list and the default constants of L_q."""
CASES = ((5, 300), (5, 1000), (20, 300), (100, 300))
"""K, and number of sampled items."""
MEMORY_RATE, WIDER = 0.1, 4.0
VISITS = 60
"""Length of the memory: older visits have less than 0.2 % of its weight."""


def coefficients(estimator: str, scores: Tensor, threshold: Tensor, memory: Tensor, tau1: float = TAU1) -> Tensor:
    """[R, m]: coefficients of ∇h_j from samples of scores [R, m], each item with the same share of the list.

    >>> scores, threshold = torch.tensor([[0.1, 0.0, -0.3]]), torch.tensor(0.0)
    >>> coefficients("normalised", scores, threshold, torch.ones(1, 1)).sum()
    tensor(1.)
    """
    near = kernel(scores, threshold, tau1) / scores.shape[1]
    total = near.sum(1, keepdim=True)
    if estimator == "slate":
        return near / (TAU2 + total)
    if estimator == "normalised":
        return near / total
    if estimator == "memory":
        return near / memory
    if estimator == "regression":
        wide = kernel(scores, threshold, WIDER * tau1)
        return near / memory + (1.0 - total / memory) * wide / wide.sum(1, keepdim=True)
    count = scores.shape[1]
    up = count / (count - 1.0)  # the share of each item if one is left out
    without = 1.0 / (TAU2 + up * (total - near))
    left_out = up * near * (without.sum(1, keepdim=True) - without) / count
    return count * near / (TAU2 + total) - (count - 1.0) * left_out


def kernel(scores: Tensor, threshold: Tensor, tau1: float) -> Tensor:
    """φ″(h − λ) = σ(1 − σ)/τ₁."""
    above = torch.sigmoid((scores - threshold) / tau1)
    return above * (1.0 - above) / tau1


ESTIMATORS = ("slate", "normalised", "jackknife", "memory", "regression")


def simulate(folder: Path, *, k: int, sampled: int, lists: int, draws: int, spread: float = 1.0) -> dict[str, Any]:
    """Each estimator at the exact λ of lists with normal scores of this standard deviation.

    Returns:
        By estimator, means over lists of: ``along``, the relative bias of Σ_j coefficient_j h_j, the derivative of λ
        as all scores grow; ``sd``, its relative standard deviation; ``sum``, the mean sum of the coefficients; and
        ``off``, the sum of |bias| of all coefficients.
    """
    torch.set_num_threads(1)
    found: dict[str, list[list[float]]] = {name: [] for name in ESTIMATORS}
    generator = torch.Generator().manual_seed(0)
    for _ in range(lists):
        scores = spread * torch.randn(LIST_SIZE, generator=generator, dtype=torch.float64)
        threshold = smooth_threshold(scores, ThresholdProblem(k, EPSILON, TAU1, TAU2))
        near = kernel(scores, threshold, TAU1) / LIST_SIZE
        exact = near / (TAU2 + near.sum())
        place = torch.rand(draws, LIST_SIZE, generator=generator).topk(sampled, 1).indices
        drawn = scores[place]
        bend = TAU2 + kernel(drawn, threshold, TAU1).mean(1)
        memory = _memory(bend, generator).unsqueeze(1)
        along = float((exact * scores).sum())
        for name in ESTIMATORS:
            given = coefficients(name, drawn, threshold, memory)
            mean = torch.zeros(LIST_SIZE, dtype=torch.float64)
            mean.index_add_(0, place.reshape(-1), given.reshape(-1)).div_(draws)
            value = (given * drawn).sum(1)
            off = float((mean - exact).abs().sum())
            row = [float(value.mean()) / along - 1.0, float(value.std()) / along, float(given.sum(1).mean()), off]
            found[name].append(row)
    names = ("along", "sd", "sum", "off")
    return {
        estimator: dict(zip(names, torch.tensor(rows).mean(0).tolist(), strict=True))
        for estimator, rows in found.items()
    }


def _memory(bend: Tensor, generator: torch.Generator) -> Tensor:
    """[R]: the moving average over other draws, as if each had been a visit."""
    weights = MEMORY_RATE * (1.0 - MEMORY_RATE) ** torch.arange(VISITS, dtype=torch.float64)
    visits = torch.stack([bend[torch.randperm(len(bend), generator=generator)] for _ in range(VISITS)])
    return (weights.unsqueeze(1) / weights.sum() * visits).sum(0)


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """A cell per K and sample size."""
    return [_cell(protocol, k, sampled) for k, sampled in CASES]


def _cell(protocol: Protocol, k: int, sampled: int) -> Cell:
    options = {"k": k, "sampled": sampled, "lists": protocol.ratio_lists, "draws": protocol.ratio_draws}
    work = "songrank_paper.theory.threshold_gradient:simulate"
    return Cell(f"∇λ at K {k} from {sampled} of {LIST_SIZE}", work, options)


def show(protocol: Protocol, found: Found) -> Findings:
    """A row per case and estimator."""
    rows: list[list[str | float | int | None]] = []
    for k, sampled in CASES:
        results = found[_cell(protocol, k, sampled).key]
        for name, one in results.items():
            shown = [f"{one['along']:+.3f}", f"{one['sd']:.2f}", f"{one['sum']:.2f}", f"{one['off']:.2f}"]
            rows.append([k, sampled, name, *shown])
    columns = ["K", "sampled", "estimator", "relative bias along h", "sd", "sum of coefficients", "Σ |bias|"]
    table = Table(f"∇λ from a sample of {LIST_SIZE} items", columns, rows)
    slate = found[_cell(protocol, *CASES[0]).key]["slate"]["along"]
    remark = f"∇λ at K = {CASES[0][0]} from {CASES[0][1]} of {LIST_SIZE} items: off by {slate:+.0%}."
    return Findings([remark], {"threshold-gradient": table})
