"""Full-items training compared with mini-batches: NDCG with SONG, and the likelihood in warm-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from songrank.analysis.report.curves import read_history
from songrank.training.run import Run
from songrank.training.trainer.batch_adapters import CatalogueAdapter
from songrank_paper.ablations import moving_gamma
from songrank_paper.curve_figures import CurveFigure, Lines
from songrank_paper.curves import curve_table, diverged_remarks, draw_curves
from songrank_paper.experiment import Cell, Findings, Found, Plan
from songrank_paper.methods import Method
from songrank_paper.protocol import SetProtocol, Training, protocols, waiting
from songrank_paper.runs import finish_run

_ALL, _BIASED = "batch.irrelevant=all", "gamma=1.0"
_QUERIES = 4096
_COMPARISONS = 1e11  # above this, an epoch of full-items training takes minutes on a GPU
_LIKELIHOOD = "−log-likelihood"


class FigFullItems(CurveFigure):
    """All items in each step; a biased sample of items (γ = 1); the same sample with a moving average."""

    name = "fig-full-items"
    title = "Full-items training, biased mini-batches (γ = 1) and moving averages: SONG, and the warm-up's likelihood"
    tasks = ("recommendation",)
    note = "All three use the setting chosen for SONG, except for γ."

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """SONG; all three use its setting."""
        return [each.method("song")]

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """Panels of NDCG; the likelihood has its own figure."""
        song, gamma = each.method("song"), moving_gamma(each, found)
        full = each.reported(song, found, _ALL, f"loss.{_BIASED}") if feasible(each) else []
        return {
            each.panel: {
                "full items": full,
                "mini-batch, γ = 1": each.reported(song, found, f"loss.{_BIASED}"),
                f"SONG, γ = {gamma}": each.reported(song, found, f"loss.gamma={gamma}"),
            }
        }

    def remarks(self, each: SetProtocol, found: Found) -> list[str]:
        """A remark on skipped curves."""
        if feasible(each):
            return []
        return [
            f"{each.name}: full-items training was skipped; an epoch would compare {_size(each):.0e} pairs of items."
        ]

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Cells of NDCG, and warm-ups with likelihoods."""
        likelihood = [one for each in self._sets(plan) for some in _likelihood(each).values() for one in some]
        return [*super().cells(plan, found), *waiting(likelihood, found)]

    def show(self, plan: Plan, found: Found) -> Findings:
        """Two figures."""
        findings = super().show(plan, found)
        panels = {each.label: _curves(_likelihood(each), found) for each in self._sets(plan)}
        tables = {
            **findings.tables,
            "likelihood": curve_table("Likelihood in warm-up", panels, _LIKELIHOOD, lowest=True),
        }
        drawn = draw_curves(panels, value=f"{_LIKELIHOOD} of training pairs", epochs="epochs of warm-up")
        remarks = list(findings.remarks)
        for each in self._sets(plan):
            results = {label: [found[one.cell.key] for one in some] for label, some in _likelihood(each).items()}
            remarks += diverged_remarks(f"{each.label}, warm-up", results)
        return Findings(remarks, tables, {**findings.figures, "likelihood": drawn})

    def _sets(self, plan: Plan) -> list[SetProtocol]:
        return protocols(plan, self.tasks, self.changes, self.most)


def _size(each: SetProtocol) -> float:
    """Number of comparisons per epoch of full-items training."""
    relevant = each.recipe.warm_up(0)["batch"]["relevant"]
    pairs = each.dataset.num_pairs if relevant == "all" else relevant * each.dataset.num_queries
    return float(pairs * each.dataset.num_items)


def feasible(each: SetProtocol) -> bool:
    """Whether full-items training takes hours rather than days on a GPU."""
    return _size(each) <= _COMPARISONS


def _likelihood(each: SetProtocol) -> dict[str, list[Training]]:
    own = each.recipe.warm_up(0)["warm_up"]["loss"]["gamma"]
    biased = f"warm_up.loss.{_BIASED}"
    variants: dict[str, list[str]] = {"full items": [_ALL, biased]} if feasible(each) else {}
    variants |= {"mini-batch, γ = 1": [biased], f"moving average, γ = {own}": []}
    return {
        label: [_measured(each, seed, f"warm-up by likelihood, {label}", changes) for seed in each.plan.seeds]
        for label, changes in variants.items()
    }


def _measured(each: SetProtocol, seed: int, what: str, changes: Sequence[str]) -> Training:
    return Training(each.cell(what, "songrank_paper.full_items:warm_up", each.recipe.warm_up(seed, *changes)))


def _curves(lines: Lines, found: Found) -> dict[str, list[list[list[float]]]]:
    results = {label: [found[one.cell.key] for one in some] for label, some in lines.items()}
    return {label: [one["curve"] for one in some if "diverged" not in one] for label, some in results.items()}


def warm_up(folder: Path, *, recipe: Mapping[str, Any], data: str, path: str, device: str) -> dict[str, Any]:
    """Warm up, and measure the likelihood of training pairs among all items after each epoch."""
    lost = finish_run(folder, {**recipe, "data": path, "device": device}, data, (), opened=_watch_likelihood)
    if lost is not None:
        return lost
    return {"curve": [[line["epoch"], line[_LIKELIHOOD]] for line in read_history(folder / "run")]}


def _watch_likelihood(run: Run) -> None:
    def observe(line: dict[str, Any]) -> None:
        line[_LIKELIHOOD] = likelihood(run)
        run.directory.rewrite_history(run.trainer.at.history)

    run.observe = observe


@torch.no_grad()
def likelihood(run: Run) -> float:
    """Mean over queries of the mean over relevant items of log Σ_j exp h_j − h_i, exactly over all items j.

    It is computed on at most 4,096 evenly spaced queries.
    """
    adapter, model = run.trainer.adapter, run.trainer.model
    assert isinstance(adapter, CatalogueAdapter)
    model.eval()
    relevance = adapter.relevance
    queries = torch.nonzero(relevance.num_relevant > 0).squeeze(-1)
    queries = queries[:: max(1, -(-queries.shape[0] // _QUERIES))]
    total = 0.0
    for part in torch.split(queries, max(1, 2**24 // relevance.num_items)):
        scores = model.score_all(adapter.queries("train", part)).double()  # type: ignore[operator]
        counts = relevance.num_relevant[part]
        row = torch.repeat_interleave(counts)
        first = relevance.indptr[part] - (counts.cumsum(0) - counts)
        item = relevance.item[torch.arange(row.shape[0], device=row.device) + first[row]]
        held = scores.new_zeros(part.shape[0]).index_add_(0, row, scores[row, item]) / counts
        total += float((scores.logsumexp(-1) - held).sum())
    return total / queries.shape[0]
