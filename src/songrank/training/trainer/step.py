"""A training step: draw, scores, loss, gradient, update; for a whole batch or in parts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from songrank.core.slate import Slate
from songrank.losses.base import row_weights
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.precision import mixed, products
from songrank.training.trainer.shard import Reduction
from songrank.training.trainer.stages import Stage


class Values:
    """The losses of the steps of an epoch, kept on the device until they are read."""

    def __init__(self, device: torch.device, steps: int) -> None:
        self.kept = torch.zeros(steps, device=device)
        self.count = torch.zeros(1, dtype=torch.int64, device=device)

    def begin(self, kept: Tensor | None = None) -> None:
        """Start an epoch, or resume one with its first losses."""
        self.kept.zero_()
        self.count.zero_()
        if kept is not None:
            self.kept[: kept.shape[0]] = kept
            self.count.fill_(kept.shape[0])

    def add(self, value: Tensor) -> None:
        """Record the loss of a step."""
        self.kept.index_copy_(0, self.count, value.view(1).to(self.kept.dtype))
        self.count.add_(1)

    def total(self) -> float:
        """The sum over the epoch."""
        return float(self.kept.sum(dtype=torch.float64))

    def first_bad(self) -> int | None:
        """The first step of the epoch whose loss is NaN or infinite, or None."""
        bad = (~self.kept.isfinite()).nonzero()
        return int(bad[0]) if bad.numel() else None


@dataclass(eq=False)
class PlainStep:
    """A step in plain PyTorch."""

    model: nn.Module
    adapter: BatchAdapter
    stage: Stage
    optimiser: TrainingOptimiser
    values: Values
    precision: str
    reduction: Reduction | None = None
    """With several processes: completes the gradients of a step."""

    def __post_init__(self) -> None:
        self.loss: Callable[..., Tensor] = self.stage.loss
        self.last: tuple[Tensor, Slate] | None = None

    @property
    def kind(self) -> str:
        """How a step runs, for ``run.json``: ``"plain"``, ``"captured"`` or ``"in parts"``."""
        return "plain"

    def close(self) -> None:
        """Release what a step keeps on the device."""

    def epoch(self) -> Iterator[None]:
        """Run the remaining steps of the sampler's epoch, one at a time."""
        for slate in self.stage.sampler:
            self(slate)
            yield

    def __call__(self, slate: Slate) -> None:
        """Run one step."""
        self.optimiser.zero_grad(set_to_none=True)
        self.last = self.compute(slate), slate

    def compute(self, slate: Slate) -> Tensor:
        """Scores, loss, gradient and update; returns the scores."""
        points, device = self.stage.loss.points, self.adapter.relevance.device.type
        weight = None if self.reduction is None else row_weights(slate, torch.float32).sum()
        read = slate.rows(0, 0) if self.stage.sampler.muted else slate
        self.optimiser.prepare(read if self.reduction is None else self.reduction.read(read))
        with products(self.precision):
            with mixed(self.precision, device):
                scores, more = self.optimiser.scores(self.model, lambda m: self.adapter.scores(m, slate), points)
            value = self.loss(scores, slate, **more)
            value = value if weight is None else value * weight  # a sum over rows: processes add up to the batch
            value.backward()  # type: ignore[no-untyped-call]
        self.finish(value.detach(), weight)
        return scores.detach()

    def finish(self, value: Tensor, weight: Tensor | None = None) -> None:
        """Complete and clip the gradients, record the loss, and update the weights.

        With ``weight``, the value and the gradients are sums over rows of this weight.
        """
        if self.reduction is not None:
            assert weight is not None
            value = self.reduction(self.optimiser, value, weight)
        elif weight is not None:
            weight = torch.where(weight > 0, weight, torch.ones_like(weight))
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(weight)
            value = value / weight
        if self.stage.clip is not None:
            if self.reduction is not None:
                self.reduction.clip(self.stage.clip)
            else:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.stage.clip)
        self.values.add(value)
        self.optimiser.step()

    def objective(self) -> float:
        """The readable value of the loss for the last slate."""
        assert self.last is not None
        scores, slate = self.last
        found = self.stage.loss.objective(scores, slate)
        if self.reduction is None:
            return float(found)
        weight = row_weights(slate, found.dtype).sum()
        return float(self.reduction.mean(found * weight, weight))


class StepInParts(PlainStep):
    """A step over ``stage.at_once`` rows at a time, which limits memory, with the gradient of the whole batch."""

    shown = torch.tensor(torch.nan)  # the objective of the epoch's last batch

    @property
    def kind(self) -> str:
        """How a step runs."""
        return "in parts"

    def epoch(self) -> Iterator[None]:
        """Run the remaining steps of the sampler's epoch, one at a time."""
        sampler = self.stage.sampler
        for left in range(sampler.batches_left, 0, -1):
            self._step(last=left == 1)
            sampler.advance()
            yield

    def objective(self) -> float:
        """The readable value of the loss for the epoch's last batch."""
        return float(self.shown)

    def _step(self, *, last: bool) -> None:
        assert self.stage.at_once is not None
        self.optimiser.zero_grad(set_to_none=True)
        device = self.values.kept.device
        found, total, shown = (torch.zeros((), device=device) for _ in range(3))
        for slate in self.stage.sampler.batch_parts(self.stage.at_once):
            with products(self.precision):
                with mixed(self.precision, device.type):
                    scores = self.adapter.scores(self.model, slate)
                weight = row_weights(slate, torch.float32).sum()
                value = self.loss(scores, slate) * weight  # a sum over rows: parts add up to the batch
                value.backward()  # type: ignore[no-untyped-call]
            found, total = found + value.detach(), total + weight
            if last:
                shown = shown + self.stage.loss.objective(scores.detach(), slate) * weight
        if last:
            none = torch.where(total > 0, total, torch.ones_like(total))
            self.shown = shown / none if self.reduction is None else self.reduction.mean(shown, total)
        self.finish(found, total)
