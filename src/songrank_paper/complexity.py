"""``fig-complexity``: time per step against the sizes of batch, slates and lists."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from songrank import KSONG, SONG, Relevance, Slate, SlateSampler
from songrank.losses import PointwiseBCE
from songrank.losses.base import RankingLoss
from songrank.models import NeuMF
from songrank.training.trainer.stages import Stage
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = {"song": "SONG", "k-song": "K-SONG", "bce": "BCE, for comparison"}
WHAT = {"loss": "loss only", "step": "full step, NeuMF"}
SIZES = {"queries": "queries per step", "irrelevant": "|B_q|, sampled items per query", "items": "N_q, items per list"}
ORDERS = {"queries": 1, "irrelevant": 1, "items": 0}
"""The exponents of the paper's per-iteration complexity: Σ_q |B_q⁺|·|B_q| for the loss, Σ_q (|B_q⁺| + |B_q|)·d for the
model; both grow with the number of queries and with |B_q|, and neither with N_q."""
_RELEVANT, _USERS, _K = 10, 1_024, 50
_DIM = 64


def measure(
    folder: Path, loss: str, what: str, size: str, points: Sequence[int], base: dict[str, int], rounds: int, device: str
) -> dict[str, Any]:
    """Median milliseconds per step for each value of one size; the other sizes are fixed.

    Args:
        folder: directory of the cell, which is not used.
        loss: ``"song"``, ``"k-song"`` or ``"bce"``, which has no memory and compares no items.
        what: ``"loss"`` for the loss and its gradient in the scores; ``"step"`` for scores, loss, gradient and update.
        size: the size that varies: ``"queries"``, ``"irrelevant"`` or ``"items"``.
        points: values of this size.
        base: the fixed sizes.
        rounds: steps per value, in alternation, so that other work on the machine affects all values.
        device: device of the measurement.
    """
    steps = {point: make_step(loss, what, {**base, size: point}, device) for point in points}
    taken: dict[int, list[float]] = {point: [] for point in points}
    for turn in range(rounds + 3):
        for point, step in steps.items():
            begun = time.perf_counter()
            step()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            if turn >= 3:
                taken[point].append(1e3 * (time.perf_counter() - begun))
    return {"points": list(points), "milliseconds": [statistics.median(taken[point]) for point in points]}


def make_step(loss: str, what: str, sizes: dict[str, int], device: str) -> Callable[[], None]:
    """A step with slates of these sizes, which are sampled before."""
    relevance = _relevance(sizes["items"], sizes["queries"]).to(device)
    top = _K if loss == "k-song" else None
    sampler = SlateSampler(relevance, sizes["queries"], _RELEVANT, sizes["irrelevant"], k=top)
    slate = next(iter(sampler))
    torch.manual_seed(0)
    made = _loss(loss, relevance).to(device)
    if what == "loss":
        scores = torch.randn(slate.label.shape, device=device).requires_grad_()
        return lambda: _differentiate(made, scores, slate)
    model = NeuMF(relevance.num_queries, relevance.num_items, dim=_DIM, hidden=[_DIM]).to(device)
    optimiser = Stage("timed", made, sampler, 1, 1e-3).make_optimiser(model, speed="plain")

    def whole() -> None:
        optimiser.zero_grad(set_to_none=True)
        made(model(slate.query, slate.item), slate).backward()
        optimiser.step()

    return whole


def _loss(name: str, relevance: Relevance) -> RankingLoss:
    if name == "bce":
        return PointwiseBCE()
    pairs = relevance.num_pairs
    return SONG(pairs) if name == "song" else KSONG(pairs, relevance.num_queries, _K)


def _differentiate(loss: torch.nn.Module, scores: torch.Tensor, slate: Slate) -> None:
    scores.grad = None
    loss(scores, slate).backward()


def _relevance(items: int, queries: int) -> Relevance:
    """Queries with twice as many relevant items as a slate has, spread over the catalogue."""
    users = max(_USERS, queries)
    query = torch.arange(users).repeat_interleave(2 * _RELEVANT)
    item = (query * 7 + torch.arange(query.shape[0]) % (2 * _RELEVANT) * (items // (2 * _RELEVANT))) % items
    label = 1.0 + (item % 5).float()
    return Relevance.from_pairs(query, item, label, num_queries=users, num_items=items)


class FigComplexity(Experiment):
    """Appendix A, measured."""

    name = "fig-complexity"
    title = "Per-iteration complexity: time per step against the number of queries, |B_q| and N_q"

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """One per curve."""
        return list(self._curves(plan).values())

    def _curves(self, plan: Plan) -> dict[tuple[str, str, str], Cell]:
        return {
            (what, size, loss): self._cell(plan, loss, what, size) for what in WHAT for size in SIZES for loss in LOSSES
        }

    def _cell(self, plan: Plan, loss: str, what: str, size: str) -> Cell:
        base = {"queries": 64, "irrelevant": 100, "items": 5_000}
        points = {"queries": [32, 128, 512], "irrelevant": [100, 400, 1_600], "items": [2_000, 10_000, 50_000]}
        if not plan.quick:
            base = {"queries": 256, "irrelevant": 300, "items": 20_000}
            points = {
                "queries": [32, 64, 128, 256, 512, 1_024],
                "irrelevant": [50, 100, 200, 400, 800, 1_600],
                "items": [2_000, 10_000, 50_000, 250_000],
            }
        options = {
            "loss": loss,
            "what": what,
            "size": size,
            "points": points[size],
            "base": base,
            "rounds": (7 if plan.quick else 40) * (5 if what == "loss" else 1),
            "device": plan.device,
        }
        name = f"{LOSSES[loss]}, {WHAT[what]}, {SIZES[size]}"
        return Cell(name, "songrank_paper.complexity:measure", options, timed=True)

    def show(self, plan: Plan, found: Found) -> Findings:
        """Curves on log axes with the order in theory, and fitted exponents."""
        curves = {names: found[cell.key] for names, cell in self._curves(plan).items()}
        slopes = {names: exponent(curve["points"], curve["milliseconds"]) for names, curve in curves.items()}
        rows: list[list[str | float | int | None]] = []
        for (what, size, loss), curve in curves.items():
            points, taken = curve["points"], curve["milliseconds"]
            words = [LOSSES[loss], WHAT[what], SIZES[size]]
            slope = slopes[what, size, loss]
            rows.append([*words, points[0], points[-1], taken[0], taken[-1], slope, ORDERS[size]])
        columns = ["loss", "time of", "against", "from", "to", "ms at first", "ms at last", "exponent", "theory"]
        return Findings(
            [
                "Theory: the cost is Σ_q |B_q⁺|·|B_q| for the loss and Σ_q (|B_q⁺| + |B_q|)·d for the model. The fixed "
                "cost of a step makes measured exponents smaller than 1 at small sizes.",
                f"Loss only against N_q: exponent {slopes['loss', 'items', 'song']:.2f} for SONG and "
                f"{slopes['loss', 'items', 'k-song']:.2f} for K-SONG (theory: 0).",
                "The embedding tables of NeuMF, their gradient and their update (Adam) grow with N_q: the exponent of "
                f"the full step is {slopes['step', 'items', 'song']:.2f} for SONG, "
                f"{slopes['step', 'items', 'k-song']:.2f} for K-SONG, and {slopes['step', 'items', 'bce']:.2f} for "
                "BCE, which compares no items.",
                f"{_RELEVANT} relevant items per query, K = {_K}, NeuMF of dimension {_DIM}; "
                f"medians over steps on {plan.device}.",
            ],
            {"exponents": Table("Fitted exponents", columns, rows)},
            {what: _draw(curves, what) for what in WHAT},
        )


def exponent(points: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms.

    >>> round(exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    x, y = torch.tensor(points, dtype=torch.float64).log(), torch.tensor(values, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def _draw(curves: dict[tuple[str, str, str], Any], what: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    for axes, size in zip(figure.subplots(1, len(SIZES)), SIZES, strict=True):
        for loss, style in zip(LOSSES, ("o-", "s--", "x-."), strict=True):
            curve = curves[what, size, loss]
            axes.loglog(curve["points"], curve["milliseconds"], style, label=LOSSES[loss], markersize=4)
        points, start = curves[what, size, "song"]["points"], curves[what, size, "song"]["milliseconds"][0]
        guide = [start * (point / points[0]) ** ORDERS[size] for point in points]
        axes.loglog(points, guide, ":", color="0.4", linewidth=1, label=f"order {ORDERS[size]}")
        axes.set_xlabel(SIZES[size])
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel(f"ms, {WHAT[what]}")
    figure.axes[0].legend(frameon=False)
    return figure
