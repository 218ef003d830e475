"""``fig-functions``: functions of the lower-level problem of K-SONG and its selectors, as implemented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from songrank.functional import Surrogate, ThresholdProblem, sigmoid_selector, smooth_step
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TAU = 0.5
"""τ₁ of the figures: large, so that the curves are distinguishable."""
_STYLES = ("-", "--", ":", "-.")


def smoothed_hinge(x: Tensor, smoothing: str, tau1: float = TAU) -> Tensor:
    """φ(x) (``"softplus"``) or κ(x) (``"hinge"``): L_q at λ = 0 of a list with the single score x.

    >>> smoothed_hinge(torch.tensor([-1.0, 2.0]), "hinge", tau1=0.5)
    tensor([0.0000, 1.7500])
    """
    problem = ThresholdProblem(k=1, tau1=tau1, smoothing=smoothing)
    scores = x.unsqueeze(-1)
    return problem.objective(torch.zeros_like(x), scores, torch.ones_like(scores), torch.ones_like(x))


class FigFunctions(Experiment):
    """The appendix's two figures of functions, and the surrogate of the rank."""

    name = "fig-functions"
    title = "Functions: hinge [·]₊ and its smooth forms φ and κ, selectors ψ, and the surrogate ℓ of the rank"

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """None: curves are computed directly."""
        return []

    def show(self, plan: Plan, found: Found) -> Findings:
        """Three figures, and the distances of the smooth functions from the hinge."""
        x = torch.linspace(-2.0, 2.0, 801, dtype=torch.float64)
        step = (x > 0).to(x.dtype)
        hinges = {
            "[x]₊": x.relu(),
            "φ(x), softplus": smoothed_hinge(x, "softplus"),
            "κ(x), smoothed hinge": smoothed_hinge(x, "hinge"),
        }
        selectors = {
            "I(x > 0)": step,
            "sigmoid, α = 2": sigmoid_selector(x, 2.0)[0],
            "smooth step over [0, τ₁]": smooth_step(x, 1.0 / TAU)[0],
        }
        surrogates = {
            "I(x ≥ 0)": (x >= 0).to(x.dtype),
            "ℓ(x), squared hinge, c = 1": Surrogate("squared_hinge")(x),
            "ℓ(x), logistic": Surrogate("logistic")(x),
        }
        hinge = hinges["[x]₊"]
        gaps: list[list[str | float]] = [
            [name, float((curve - hinge).abs().max())] for name, curve in hinges.items() if curve is not hinge
        ]
        below = float(selectors["sigmoid, α = 2"][x <= 0].max())
        return Findings(
            [
                f"τ₁ is {TAU:g} here, so that the curves are distinguishable; "
                f"the default of the losses is {ThresholdProblem(1).tau1:g}.",
                f"φ is at most {gaps[0][1]:.3f} above the hinge (τ₁ ln 2), κ at most {gaps[1][1]:.3f} below it (τ₁/2).",
                f"The sigmoid selects items below the threshold too, by up to {below:.2f}: "
                "the lower bound of Lemma 3 holds for the smooth step, but not for the sigmoid.",
                "The squared hinge with c = 1 is at least I(x ≥ 0) everywhere, as Lemma 1 requires.",
            ],
            {"gaps": Table(f"Largest distance from the hinge, τ₁ = {TAU:g}", ["function", "distance"], gaps)},
            {
                "hinges": _draw(x, hinges, "x", "hinge and its smooth forms"),
                "selectors": _draw(x, selectors, "x = h − λ", "selectors ψ(x)"),
                "surrogates": _draw(x, surrogates, "x = h(x′) − h(x)", "surrogates ℓ(x) of the rank"),
            },
        )


def _draw(x: Tensor, curves: Mapping[str, Tensor], x_title: str, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.2))
    axes = figure.subplots()
    for (name, curve), style in zip(curves.items(), _STYLES, strict=False):
        axes.plot(x.numpy(), curve.numpy(), style, label=name)
    axes.set_xlabel(x_title)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
