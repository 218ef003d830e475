"""``fig-stop-gradient``: size of the gradient term that practical K-SONG omits."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from songrank import KSONG
from songrank.core.slate import Slate
from songrank.data import open_dataset
from songrank.functional import ThresholdProblem
from songrank.io.files import write_whole
from songrank.io.json_files import plain
from songrank.losses.base import Rows
from songrank.losses.outer import NDCG
from songrank.training.config.recipe_files import load_recipe
from songrank.training.config.yaml_text import shipped_recipes
from songrank.training.run import Run
from songrank.training.run_directory import fingerprint
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.loop import DivergedError
from songrank_paper.curves import diverged_remarks
from songrank_paper.data_sets import SETS
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table
from songrank_paper.set_recipes import paper_schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "used": "as trained: ψ sigmoid, φ",
    "paper": "as trained, rank offset 0",
    "appendix": "appendix: ψ smooth step over [0, τ₁], κ, rank offset 0",
}
_SLATES = 4
_COLUMNS = ("first", "second", "cosine")


def train(
    folder: Path, data: str, recipe: str, changes: Sequence[str], every: int, path: str, device: str
) -> dict[str, Any]:
    """Train theoretical K-SONG with a recipe, and measure both terms of its gradient during training.

    Args:
        folder: directory of the cell, with the run and the measurements so far.
        data: fingerprint of the data set.
        recipe: name of an included recipe.
        changes: changes of the recipe, in the notation of the command line.
        every: epochs of fine-tuning between measurements; the first epoch is measured too.
        path: path of the data set.
        device: device for training.
    """
    place, kept = folder / "run", folder / "terms.json"
    lines: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}

    def observe(line: dict[str, Any]) -> None:
        epoch = line["epoch"]
        if line["stage"] == "fine-tuning" and (epoch == 1 or epoch % every == 0):
            lines[str(epoch)] = _measure(run)
            write_whole(kept, json.dumps(plain(lines)))

    if (place / "config.yaml").exists():
        run = Run.resume(place, data=Path(path), observe=observe, splits=())
    else:
        chosen = load_recipe(recipe, [*changes, f"data={json.dumps(path)}", f"device={device}"])
        run = Run.begin(chosen, place, observe=observe, splits=())
    try:
        run.finish()
    except DivergedError as error:
        return {"diverged": str(error)}
    return {"epochs": {epoch: lines[epoch] for epoch in sorted(lines, key=int)}}


def _measure(run: Run) -> dict[str, dict[str, float]]:
    """Both terms over slates that are the same in every epoch, at the current weights and memory."""
    stage, model = run.trainer.stages[-1], run.trainer.model
    assert isinstance(stage.loss, KSONG)
    sampler = copy.copy(stage.sampler)
    queries = sampler.order(0)[: _SLATES * sampler.queries_per_batch]
    slates = [sampler.draw(query, 0) for query in torch.split(queries, sampler.queries_per_batch)]
    training = model.training
    model.eval()
    found = {kind: terms(loss, model, run.trainer.adapter, slates) for kind, loss in _kinds(stage.loss).items()}
    model.train(training)
    return found


def _kinds(loss: KSONG) -> dict[str, KSONG]:
    """The loss as trained, with the paper's objective, and also with the appendix's selector and smoothing."""
    paper, problem = copy.copy(loss), loss.problem
    paper.outer = NDCG(rank_offset=0.0)
    appendix = copy.copy(paper)
    appendix.selector, appendix.selector_scale = "smooth_step", 1.0 / problem.tau1
    appendix.problem = ThresholdProblem(problem.k, problem.epsilon, problem.tau1, problem.tau2, "hinge")
    return {"used": loss, "paper": paper, "appendix": appendix}


def terms(loss: KSONG, model: torch.nn.Module, adapter: BatchAdapter, slates: Sequence[Slate]) -> dict[str, float]:
    """Norms of the two terms of eq. (5) in the weights, means over slates, and the cosine between them.

    The practical gradient (eq. 6) is exactly the first term, so the second is the difference of both gradients.
    """
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total = torch.zeros(len(_COLUMNS), dtype=torch.float64)
    for slate in slates:
        scores, rows = adapter.scores(model, slate), loss.gather(slate)
        first = _gradient(loss, "practical", scores, slate, rows, weights)
        second = _gradient(loss, "theoretical", scores, slate, rows, weights) - first
        sizes = first.norm(), second.norm()
        cosine = (first * second).sum() / (sizes[0] * sizes[1]).clamp_min(torch.finfo(first.dtype).tiny)
        total += torch.stack([*sizes, cosine]).cpu()
    return dict(zip(_COLUMNS, (total / len(slates)).tolist(), strict=True))


def _gradient(loss: KSONG, mode: str, scores: Tensor, slate: Slate, rows: Rows, weights: Sequence[Tensor]) -> Tensor:
    """G of eq. (5) or eq. (6) as a vector, without changing the memory of the loss."""
    same = copy.copy(loss)
    same.mode = mode
    value, _ = same.step(scores, slate, rows)
    found = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
    return torch.cat([part.double().flatten() for part in found if part is not None])


class FigStopGradient(Experiment):
    """The condition under which the appendix justifies the stop-gradient operator, measured."""

    name = "fig-stop-gradient"
    title = "Stop gradient: the term ψ′ f (∇h − ∇λ) that practical K-SONG omits, relative to the term it keeps"

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """One per seed."""
        return [self._cell(plan, seed) for seed in plan.seeds]

    def _cell(self, plan: Plan, seed: int) -> Cell:
        name = _chosen(plan)
        recipe = "quick" if plan.quick else name if name in shipped_recipes() else "recommendation"
        changes = ["loss=k-song", "loss.mode=theoretical", f"seed={seed}"]
        if recipe == "movielens-1m":
            # The settings of the recipe for K-SONG were chosen for another schedule.
            changes += ["loss.k=100", "loss.gamma=0.3", "loss.rank_offset=64", *paper_schedule(recipe)]
            changes += ["fine_tuning.learning_rate=1e-3", "fine_tuning.item_decay_power=0"]
        if plan.quick:
            stage = "fine_tuning={epochs: 16, learning_rate: 1.0e-3, decay: {10: 0.25}}"
            changes += ["loss.k=20", "warm_up.epochs=10", stage]
        options = {
            "data": fingerprint(open_dataset(plan.data[name])),
            "recipe": recipe,
            "changes": changes,
            "every": 2 if plan.quick else 10,
        }
        where = {"path": str(plan.data[name].absolute()), "device": plan.device}
        return Cell(f"{name}, seed {seed}", "songrank_paper.stop_gradient:train", options, where)

    def show(self, plan: Plan, found: Found) -> Findings:
        """The ratio of the norms against epochs, and the angle between the terms."""
        results = [found[self._cell(plan, seed).key] for seed in plan.seeds]
        lost = diverged_remarks(_chosen(plan), {"theoretical K-SONG": results})
        runs = [result["epochs"] for result in results if "diverged" not in result]
        if not runs:
            return Findings(lost)
        epochs = [int(epoch) for epoch in runs[0] if all(epoch in run for run in runs)]
        rows: list[list[str | float | int | None]] = []
        ratios: dict[str, list[list[float]]] = {}
        for kind, words in KINDS.items():
            ratios[kind] = [[_ratio(run[str(epoch)][kind]) for run in runs] for epoch in epochs]
            for epoch, values in zip(epochs, ratios[kind], strict=True):
                means = [sum(run[str(epoch)][kind][column] for run in runs) / len(runs) for column in _COLUMNS]
                rows.append([words, epoch, means[0], means[1], sum(values) / len(values), means[2]])
        last = {kind: sum(values[-1]) / len(runs) for kind, values in ratios.items()}
        columns = ["form", "epoch", "first term", "second term", "second / first", "cosine"]
        return Findings(
            [
                f"At the last measured epoch, the second term is {last['used']:.2f} times the first as trained, "
                f"{last['paper']:.2f} times with rank offset 0, the paper's objective, and {last['appendix']:.2f} "
                "times with the appendix's selector, at the same weights and thresholds.",
                "The appendix argues that the second term is near 0 if ψ′ is constant on [0, τ₁] and 0 elsewhere. "
                "Theoretical K-SONG is stationary where both terms cancel, with ratio 1 and cosine −1.",
                f"Norms of gradients in the weights of theoretical K-SONG, means over {_SLATES} fixed slates and "
                f"{len(runs)} seeds.",
                *lost,
            ],
            {"terms": Table("Norms of the two terms of the gradient", columns, rows)},
            {"ratio": _draw(epochs, ratios)},
        )


def _chosen(plan: Plan) -> str:
    """MovieLens-1M if it was given, else the first recommendation set."""
    names = [name for name in plan.data if SETS[name].group == "recommendation"]
    return "movielens-1m" if "movielens-1m" in names else names[0]


def _ratio(measured: Mapping[str, float]) -> float:
    return measured["second"] / measured["first"] if measured["first"] else float("nan")


def _draw(epochs: Sequence[int], ratios: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.4))
    axes = figure.subplots()
    for (kind, values), style in zip(ratios.items(), ("o-", "s--", "x-."), strict=True):
        means = [sum(some) / len(some) for some in values]
        (line,) = axes.plot(epochs, means, style, label=KINDS[kind], markersize=4)
        axes.fill_between(
            epochs, [min(v) for v in values], [max(v) for v in values], alpha=0.15, color=line.get_color()
        )
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("epoch of fine-tuning")
    axes.set_ylabel("‖second term‖ / ‖first term‖")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
