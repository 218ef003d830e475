"""One stage of training: which loss, how long, how fast. The paper has two: warm-up, then fine-tuning, new head."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from songrank import kernels
from songrank.core.checks import check_choice, check_int, check_number, fail
from songrank.losses.base import RankingLoss
from songrank.losses.faster_song import VarianceReduced
from songrank.sampling import SlateSampler
from songrank.training.optim.frequency_decay import ItemDecay
from songrank.training.optim.row_adam import RowAdam
from songrank.training.optim.storm import Storm

OPTIMISERS = ("adam", "lazy-adam", "sgd")
_LARGE = 2**22
"""Numbers of a table from which on a GPU updates rows by themselves: below, reading it all is cheaper than not to."""
_OF_THE_DEVICE = ("fused", "capturable", "foreach")


@dataclass(frozen=True)
class Stage:
    """What happens between two states of a model.

    Args:
        name: what reports call it.
        loss: any loss of the common call; its memory is part of the run's state.
        sampler: slates, every query once an epoch.
        epochs: how many.
        learning_rate: at the start.
        decay: factors by which the learning rate is multiplied after so many epochs: ``{60: 0.25}`` is the paper's for
            recommendation.
        weight_decay: of weights; biases and norms are left alone.
        item_decay_power: weight decay of an item's row of a table grows with this power of its relevant pairs
            (:class:`songrank.training.optim.frequency_decay.ItemDecay`); 0 for all rows alike.
        optimiser: ``"adam"``; ``"lazy-adam"``, which moves only the rows of large tables that a step touches (another
            algorithm, see :mod:`songrank.training.optim.row_adam`); or ``"sgd"`` for the paper's momentum
            m = β₁m + (1 − β₁)G. ``FasterSONG`` and ``FasterKSONG`` take ``training.storm.Storm`` instead: its Adam form
            for ``"adam"``, its plain one for ``"sgd"``, with the loss's schedule if it has one.
        momentum: β₁ of ``"sgd"``; 1 − γ of ``Storm``.
        correction: κ of ``Storm``, for losses of two points; None for 1.
        average: share s of a mean over epochs of the weights, wᵢ counting sⁿ⁻ⁱ after n epochs: it is what is evaluated
            and kept, while training goes on from the weights themselves. None for no mean.
        reset_head: initialise the last layer anew before the stage, as the paper does before fine-tuning.
        clip: largest norm of the gradient; None for no limit.
        at_once: rows of a batch that are scored at a time, for batches that memory should not bear whole; their
            gradients are added up before the one update. None for all.

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
    average: float | None = None
    reset_head: bool = False
    clip: float | None = None
    at_once: int | None = None

    def __post_init__(self) -> None:
        check_int("epochs", self.epochs, 0)
        check_number("learning_rate", self.learning_rate, 0, low_open=True)
        check_number("weight_decay", self.weight_decay, 0)
        check_number("item_decay_power", self.item_decay_power, 0)
        if self.item_decay_power and (self.optimiser == "lazy-adam" or isinstance(self.loss, VarianceReduced)):
            fail("item_decay_power", self.item_decay_power, "0 with lazy-adam and with faster-song or faster-k-song")
        check_choice("optimiser", self.optimiser, OPTIMISERS)
        check_number("momentum", self.momentum, 0, 1, high_open=True)
        if self.average is not None:
            check_number("average", self.average, 0, 1, low_open=True, high_open=True)
        for epoch, factor in self.decay.items():
            check_int("decay", epoch)
            check_number(f"decay[{epoch}]", factor, 0, low_open=True)
        if self.clip is not None:
            check_number("clip", self.clip, 0, low_open=True)
            if self.optimiser == "lazy-adam":
                fail("clip", self.clip, "none with optimiser='lazy-adam', which never has the whole gradient")
        if self.at_once is not None:
            check_int("at_once", self.at_once)
            if isinstance(self.loss, VarianceReduced) or self.optimiser == "lazy-adam":
                fail("at_once", self.at_once, "none with lazy-adam and with faster-song or faster-k-song")
        if isinstance(self.loss, VarianceReduced):
            if self.optimiser == "lazy-adam":
                fail("optimiser", self.optimiser, f"adam or sgd with {type(self.loss).__name__}")
            if self.correction is not None and self.loss.points == 1:
                fail("correction", self.correction, "none with points=1, which has one gradient alone")
            if self.clip is not None and self.loss.points == 2:
                fail("clip", self.clip, f"none with {type(self.loss).__name__}, whose two gradients belong together")
        elif self.correction is not None:
            fail("correction", self.correction, "none but with a loss of two points: faster-song or faster-k-song")

    def rate(self, epoch: int) -> float:
        """The learning rate in an epoch, counted from 0."""
        rate = self.learning_rate
        for start, factor in sorted(self.decay.items()):
            rate *= factor if epoch >= start else 1.0
        return rate

    def make_optimiser(self, model: nn.Module, speed: str = "auto") -> torch.optim.Optimizer:
        """A new optimiser, without weight decay for biases and norms."""
        items = self._item_tables(model)
        by_decay = zip(_by_decay(model, items), (self.weight_decay, 0.0), strict=True)
        groups = [{"params": some, "weight_decay": decay} for some, decay in by_decay if some]
        optimiser = self._optimiser(groups, model, speed)
        if items:
            decay = ItemDecay(items, self.sampler.relevance, self.weight_decay, self.item_decay_power)
            optimiser.register_step_pre_hook(decay)
        return optimiser

    def _item_tables(self, model: nn.Module) -> list[nn.Embedding]:
        """Tables with a row for each item, where these are decayed by what is relevant."""
        if not (self.weight_decay and self.item_decay_power):
            return []
        named: dict[str, list[nn.Embedding]] = getattr(model, "row_tables", lambda pairs: {})(0)
        return named.get("item", [])

    def _optimiser(self, groups: list[dict[str, Any]], model: nn.Module, speed: str) -> torch.optim.Optimizer:
        if isinstance(self.loss, VarianceReduced):
            return Storm(
                groups,
                self.learning_rate,
                1.0 - self.momentum,
                adam=self.optimiser == "adam",
                correction=0.0 if self.loss.points == 1 else 1.0 if self.correction is None else self.correction,
                schedule=self.loss.schedule,
            )
        if self.optimiser == "sgd":
            return torch.optim.SGD(groups, self.learning_rate, momentum=self.momentum, dampening=self.momentum)
        parameters = [parameter for group in groups for parameter in group["params"]]
        on_gpu = all(parameter.is_cuda for parameter in parameters)
        # Fused is one pass over weights, moments and gradients, a fifth of the time of the plain way on a CPU too;
        # capturable keeps the count of steps on the device.
        fused = all(
            parameter.device.type in ("cpu", "cuda") and parameter.is_floating_point() for parameter in parameters
        )
        options: dict[str, Any] = {"fused": fused, "capturable": on_gpu}
        tables = self._row_tables(model, waiting=speed != "plain" and on_gpu and kernels.installed())
        if not tables:
            return torch.optim.Adam(groups, self.learning_rate, **options)
        missed = "lazy" if self.optimiser == "lazy-adam" else "exact"
        return RowAdam(groups, self.learning_rate, tables, missed=missed, **options)

    def _row_tables(self, model: nn.Module, *, waiting: bool) -> dict[str, list[nn.Embedding]]:
        """Embeddings whose rows are updated by themselves."""
        pairs = self.sampler.queries_per_batch * self.sampler.columns
        named: dict[str, list[nn.Embedding]] = getattr(model, "row_tables", lambda pairs: {})(pairs)
        lazy = self.optimiser == "lazy-adam"
        whole = self.clip is not None or self.at_once is not None or self.item_decay_power > 0
        if not lazy and (not waiting or whole):
            return {}

        def chosen(weight: Tensor) -> bool:
            large = weight.numel() >= _LARGE and weight.dtype == torch.float32
            return weight.requires_grad and (lazy or large)

        found = {kind: [table for table in some if chosen(table.weight)] for kind, some in named.items()}
        return {kind: some for kind, some in found.items() if some}

    @staticmethod
    def load_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Go on from an optimiser's state, which another kind of device may have saved."""
        own = [{name: group.get(name) for name in _OF_THE_DEVICE} for group in optimiser.param_groups]
        optimiser.load_state_dict(state)
        for group, options in zip(optimiser.param_groups, own, strict=True):
            group.update({name: value for name, value in options.items() if value is not None})


def _by_decay(model: nn.Module, apart: Iterable[nn.Embedding]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Weights, and what an optimiser leaves alone: these tables, and one number a unit: biases, gains, temperatures."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    tables = {id(table.weight) for table in apart}
    decayed = [parameter.dim() > 1 and id(parameter) not in tables for parameter in parameters]
    some = [parameter for parameter, chosen in zip(parameters, decayed, strict=True) if chosen]
    return some, [parameter for parameter, chosen in zip(parameters, decayed, strict=True) if not chosen]
