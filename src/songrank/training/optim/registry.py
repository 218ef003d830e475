"""Optimisers by their names in recipes, and their capabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from songrank import kernels
from songrank.core.processes import ALONE, Processes
from songrank.losses.base import Traits
from songrank.models.base import RankingModel
from songrank.training.optim.base import SGD, Adam, TrainingOptimiser
from songrank.training.optim.frequency_decay import FrequencyScaledDecay
from songrank.training.optim.row_adam import RowAdam
from songrank.training.optim.storm import Storm

if TYPE_CHECKING:
    from songrank.training.trainer.stages import Stage

Groups = list[dict[str, Any]]
_LARGE = 2**22  # numbers in a table to defer updates of its rows on a GPU; dense updates of smaller ones are cheaper


@dataclass(frozen=True)
class OptimiserKind:
    """An optimiser that recipes can name.

    Args:
        build: creates it from groups of parameters, the stage, the model and the speed setting.
        whole_gradient: whether all gradients are complete before its step; only then can they be clipped, summed over
            parts of a batch, or decayed by item frequency.
        second_moment: whether the Adam form of ``Storm`` replaces it for variance-reduced losses.
    """

    build: Callable[[Groups, Stage, nn.Module, str], TrainingOptimiser]
    whole_gradient: bool = True
    second_moment: bool = False


def _sgd(groups: Groups, stage: Stage, model: nn.Module, speed: str) -> TrainingOptimiser:
    return SGD(groups, stage.learning_rate, momentum=stage.momentum, dampening=stage.momentum)


def _adam(groups: Groups, stage: Stage, model: nn.Module, speed: str) -> TrainingOptimiser:
    """Dense Adam; on a GPU, updates of rows of large tables are deferred, with the same values."""
    on_gpu = all(parameter.is_cuda for group in groups for parameter in group["params"])
    tables = deferred_tables(stage, model) if _may_defer(speed, on_gpu=on_gpu) else {}
    return _row_adam(groups, stage, tables, "exact")


def _may_defer(speed: str, *, on_gpu: bool) -> bool:
    return speed != "plain" and on_gpu and kernels.installed()


def deferred_tables(stage: Stage, model: nn.Module) -> dict[str, list[nn.Embedding]]:
    """Large tables whose row updates can be deferred: none if a step needs the full gradient."""
    if stage.clip is not None or stage.at_once is not None or stage.item_decay_power > 0:
        return {}
    return _tables(stage, model, lambda weight: weight.numel() >= _LARGE and weight.dtype == torch.float32)


def _lazy_adam(groups: Groups, stage: Stage, model: nn.Module, speed: str) -> TrainingOptimiser:
    return _row_adam(groups, stage, _tables(stage, model, lambda weight: True), "lazy")


def _row_adam(groups: Groups, stage: Stage, tables: dict[str, list[nn.Embedding]], missed: str) -> TrainingOptimiser:
    """Adam, or ``RowAdam`` for tables. Fused is five times as fast; capturable keeps the step on the device."""
    parameters: list[nn.Parameter] = [parameter for group in groups for parameter in group["params"]]
    fused = all(parameter.device.type in ("cpu", "cuda") and parameter.is_floating_point() for parameter in parameters)
    options: dict[str, Any] = {"fused": fused, "capturable": all(parameter.is_cuda for parameter in parameters)}
    if not tables:
        return Adam(groups, stage.learning_rate, **options)
    return RowAdam(groups, stage.learning_rate, tables, missed=missed, **options)


OPTIMISERS = {
    "adam": OptimiserKind(_adam, second_moment=True),
    "lazy-adam": OptimiserKind(_lazy_adam, whole_gradient=False),
    "sgd": OptimiserKind(_sgd),
}


def stage_conflicts(
    optimiser: str, loss: str, traits: Traits, points: int, **limits: Any
) -> Iterator[tuple[str, Any, str]]:
    """The conflicts of optimiser, loss and ``limits`` in a stage: key, value, and the expected value."""
    clip, power, correction = limits.get("clip"), limits.get("item_decay_power"), limits.get("correction")
    at_once, whole, two = limits.get("at_once"), OPTIMISERS[optimiser].whole_gradient, traits.previous_point
    able = " or ".join(name for name, kind in OPTIMISERS.items() if kind.whole_gradient)
    partial = f"with {optimiser}, which does not compute the full gradient"
    rules = (
        (not whole and clip is not None, "clip", clip, f"none {partial}"),
        (not whole and power, "item_decay_power", power, f"0 {partial}"),
        (not whole and at_once is not None, "at_once", at_once, f"none {partial}"),
        (correction is not None and points != 2, "correction", correction, "none unless the loss uses two points"),
        (two and not whole, "optimiser", optimiser, f"{able} with {loss}"),
        (two and power, "item_decay_power", power, f"0 with {loss}"),
        (two and at_once and traits.whole_batch, "at_once", at_once, f"none with {loss}, which needs the whole batch"),
        (two and clip is not None and points == 2, "clip", clip, "none with a loss that uses two points"),
    )
    return ((key, value, expected) for broken, key, value, expected in rules if broken)


def make_optimiser(
    stage: Stage, model: nn.Module, speed: str = "auto", processes: Processes = ALONE
) -> TrainingOptimiser:
    """Create the optimiser of a stage; biases and norms have no weight decay."""
    items: list[nn.Embedding] = []
    if stage.weight_decay and stage.item_decay_power and isinstance(model, RankingModel):
        items = model.row_tables(0).get("item", [])
    groups = _groups(model, stage.weight_decay, {id(table.weight) for table in items})
    if stage.loss.traits.previous_point:
        optimiser: TrainingOptimiser = _storm(groups, stage)
    else:
        optimiser = OPTIMISERS[stage.optimiser].build(groups, stage, model, speed)
    scaled = stage.weight_decay, stage.item_decay_power, processes
    decay = FrequencyScaledDecay(items, stage.sampler.relevance, *scaled)
    optimiser.register_step_pre_hook(decay)  # it does nothing without tables
    return optimiser


def _storm(groups: Groups, stage: Stage) -> Storm:
    loss: Any = stage.loss
    return Storm(
        groups,
        stage.learning_rate,
        1.0 - stage.momentum,
        adam=OPTIMISERS[stage.optimiser].second_moment,
        correction=0.0 if loss.points == 1 else 1.0 if stage.correction is None else stage.correction,
        schedule=loss.schedule,
    )


def _tables(stage: Stage, model: nn.Module, chosen: Callable[[Tensor], bool]) -> dict[str, list[nn.Embedding]]:
    pairs = stage.sampler.queries_per_batch * stage.sampler.columns
    named = model.row_tables(pairs) if isinstance(model, RankingModel) else {}
    found = {
        kind: [table for table in some if table.weight.requires_grad and chosen(table.weight)]
        for kind, some in named.items()
    }
    return {kind: some for kind, some in found.items() if some}


def _groups(model: nn.Module, decay: float, apart: set[int]) -> Groups:
    """Parameters with weight decay and without it: the tables ``apart``, biases, gains and temperatures."""
    sides: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for parameter in model.parameters():
        if parameter.requires_grad:
            sides[parameter.dim() > 1 and id(parameter) not in apart].append(parameter)
    return [{"params": some, "weight_decay": decay if decayed else 0.0} for decayed, some in sides.items() if some]
