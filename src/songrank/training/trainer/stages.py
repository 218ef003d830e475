"""One stage of training. The paper has two: warm-up, then fine-tuning with a new head."""

from dataclasses import dataclass, field

from torch import nn

from songrank.core.checks import check_choice, check_int, check_number, fail
from songrank.core.processes import ALONE, Processes
from songrank.losses.base import RankingLoss
from songrank.sampling import SlateSampler
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.optim.registry import OPTIMISERS, make_optimiser, stage_conflicts

KEEP = ("last", "all")
"""Stages whose best checkpoint is the result of a run."""


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Args:
        name: name in reports.
        loss: any loss; its memory is part of the checkpoint.
        sampler: sampler of slates, with every query once per epoch.
        epochs: number of passes over the queries.
        learning_rate: initial learning rate.
        decay: learning rate factors by epoch; ``{60: 0.25}`` is the paper's for recommendation.
        weight_decay: weight decay; biases and norms are excluded.
        item_decay_power: p of :class:`songrank.training.optim.frequency_decay.FrequencyScaledDecay`; 0 for none.
        optimiser: ``"adam"``; ``"lazy-adam"`` (:mod:`songrank.training.optim.row_adam`); or ``"sgd"`` for the paper's
            momentum m = β₁m + (1 − β₁)G. ``FasterSONG`` and ``FasterKSONG`` use ``training.optim.storm.Storm``: its
            Adam form for ``"adam"``, its plain form for ``"sgd"``, with the loss's schedule if it has one.
        momentum: β₁ of ``"sgd"``; 1 − γ of ``Storm``.
        correction: κ of ``Storm``, for losses of two points; None for 1.
        ema_decay: decay s of :class:`songrank.training.optim.ema.WeightEMA`; None for no EMA.
        reset_head: re-initialise the last layer before the stage, as the paper does before fine-tuning.
        clip: maximum gradient norm; None for no limit.
        at_once: rows of a batch to score at a time, to save memory; None for all.

    >>> from songrank import Relevance
    >>> from songrank.losses import SoftmaxCE
    >>> relevance = Relevance.from_pairs([0, 1], [0, 1], num_items=4)
    >>> stage = Stage("fine-tuning", SoftmaxCE(), SlateSampler(relevance, 2, 2, 2), 120, 4e-4, decay={60: 0.25})
    >>> stage.rate(0), stage.rate(60)
    (0.0004, 0.0001)
    """

    name: str
    loss: RankingLoss
    sampler: SlateSampler
    epochs: int
    learning_rate: float
    decay: dict[int, float] = field(default_factory=dict)
    weight_decay: float = 0.0
    item_decay_power: float = 0.0
    optimiser: str = "adam"
    momentum: float = 0.9
    correction: float | None = None
    ema_decay: float | None = None
    reset_head: bool = False
    clip: float | None = None
    at_once: int | None = None

    def __post_init__(self) -> None:
        check_int("epochs", self.epochs, 0)
        check_number("learning_rate", self.learning_rate, 0, low_open=True)
        check_number("weight_decay", self.weight_decay, 0)
        check_number("item_decay_power", self.item_decay_power, 0)
        check_choice("optimiser", self.optimiser, tuple(OPTIMISERS))
        check_number("momentum", self.momentum, 0, 1, high_open=True)
        if self.ema_decay is not None:
            check_number("ema_decay", self.ema_decay, 0, 1, low_open=True, high_open=True)
        for epoch, factor in self.decay.items():
            check_int("decay", epoch)
            check_number(f"decay[{epoch}]", factor, 0, low_open=True)
        if self.clip is not None:
            check_number("clip", self.clip, 0, low_open=True)
        if self.at_once is not None:
            check_int("at_once", self.at_once)
        limits = {name: getattr(self, name) for name in ("clip", "item_decay_power", "correction", "at_once")}
        loss = self.loss
        for conflict in stage_conflicts(self.optimiser, type(loss).__name__, loss.traits, loss.points, **limits):
            fail(*conflict)

    def rate(self, epoch: int) -> float:
        """The learning rate in an epoch, from 0."""
        rate = self.learning_rate
        for start, factor in sorted(self.decay.items()):
            rate *= factor if epoch >= start else 1.0
        return rate

    def make_optimiser(self, model: nn.Module, speed: str = "auto", processes: Processes = ALONE) -> TrainingOptimiser:
        """Create the optimiser of the stage; biases and norms have no weight decay."""
        return make_optimiser(self, model, speed, processes)
