"""The training step of ``songrank train`` on data in memory, which speed.py measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from songrank import Relevance, Slate, SlateSampler, kernels
from songrank.losses.base import RankingLoss
from songrank.training.config.components import make_component
from songrank.training.optim.row_adam import RowAdam
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.captured_step import make_step
from songrank.training.trainer.stages import Stage
from songrank.training.trainer.step import PlainStep, Values

K = 300
"""K of K-SONG, as in the recipe for MovieLens-20M."""

_OVER = object()


@dataclass
class MemoryAdapter:
    """An adapter without a data set: ``describe`` gives the two inputs of a model for a slate."""

    relevance: Relevance
    describe: Callable[[Slate], tuple[Any, Tensor]] = lambda slate: (slate.query, slate.item)

    def scores(self, model: Any, slate: Slate) -> Tensor:
        """Scores of the model for a slate."""
        answer: Tensor = model(*self.describe(slate))
        return answer

    def evaluate(self, *_: Any, **__: Any) -> Any:
        """Not measured here."""
        raise NotImplementedError


def make_loss(name: str, relevance: Relevance, **options: Any) -> RankingLoss:
    """A loss by its name in recipes, with memory for these pairs."""
    sizes = {
        "num_pairs": relevance.num_pairs,
        "num_queries": relevance.num_queries,
        "seed": 0,
        "queries_per_batch": 256,
    }
    given = {"name": name, **({"k": K} if name.endswith("k-song") else {}), **options}
    loss: RankingLoss = make_component("loss", given, sizes).to(relevance.device)
    return loss


def make_stage(loss: RankingLoss, sampler: SlateSampler, epochs: int = 120, optimiser: str = "adam") -> Stage:
    """A stage of fine-tuning, as in the recipe for MovieLens-20M."""
    return Stage("fine-tuning", loss, sampler, epochs, 4e-4, weight_decay=1e-7, optimiser=optimiser)


class TrainingStep:
    """A training step per call, as in ``songrank train`` on this device, including sampling.

    Args:
        model: model to train.
        adapter: data adapter of the model.
        loss: any loss.
        speed: ``"auto"`` or ``"plain"``.
        epochs: epochs of the stage, since compilation pays only for long stages.
        slates: options of the sampler.
    """

    def __init__(
        self,
        model: nn.Module,
        adapter: BatchAdapter,
        loss: RankingLoss,
        speed: str = "auto",
        epochs: int = 120,
        **slates: Any,
    ) -> None:
        device, self.plain = adapter.relevance.device, speed == "plain"
        partial = "pad" if device.type == "cuda" else "short"
        sampler = SlateSampler(adapter.relevance, **slates, k=loss.k, partial=partial)
        self.steps_an_epoch = len(sampler)
        model = model.to(device).train()
        stage = make_stage(loss, sampler, epochs)
        self.optimiser = stage.make_optimiser(model, speed=speed)
        parts = (model, adapter, stage, self.optimiser, Values(device, len(stage.sampler)), False)
        with kernels.plain(self.plain):
            self.step: PlainStep = make_step(*parts, speed=speed, warn=print)
        self._left: Iterator[object] = self.step.epoch()

    def __call__(self) -> None:
        with kernels.plain(self.plain):
            if next(self._left, _OVER) is _OVER:
                self._end_epoch()
                next(self._left)

    def _end_epoch(self) -> None:
        if isinstance(self.optimiser, RowAdam):
            self.optimiser.flush()
        self.step.values.begin()
        self._left = self.step.epoch()

    def epoch(self) -> None:
        """Finish an epoch, with the updates of weights at its end."""
        with kernels.plain(self.plain):
            for _ in self._left:
                pass
            self._end_epoch()


def forever(sampler: SlateSampler) -> Iterator[Slate]:
    """Slates, epoch after epoch."""
    while True:
        yield from sampler


def num_weights(model: nn.Module) -> int:
    """Weights of a model."""
    return sum(parameter.numel() for parameter in model.parameters())
