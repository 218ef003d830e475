"""A moving mean of a model's weights over epochs: evaluated and kept, while training goes on from the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightEMA:
    """The mean w̄ₙ = Σ sⁿ⁻ⁱ wᵢ / Σ sⁿ⁻ⁱ of the weights at the end of epochs i = 1 … n of a stage, s the share kept.

    That is a moving mean with Adam's correction for its beginning: over few epochs the plain mean of all of them, in
    the long run over the last 1 / (1 − s) or so.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> mean = WeightEMA(model)
    >>> for epoch, value in enumerate((1.0, 2.0, 4.0), 1):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     mean.follow(0.5, epoch)
    >>> with mean.in_place():
    ...     model.weight.item()  # (0.25 · 1 + 0.5 · 2 + 4) / 1.75
    3.0
    >>> model.weight.item()
    4.0
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.weights: dict[str, Tensor] | None = None

    def begin(self, weights: dict[str, Tensor] | None = None) -> None:
        """Forget what there was, or go on from a mean that was saved."""
        devices = {name: weight.device for name, weight in self.model.named_parameters()}
        self.weights = None
        if weights is not None:
            self.weights = {name: mean.to(devices[name], copy=True) for name, mean in weights.items()}

    def follow(self, share: float | None, epoch: int) -> None:
        """Take the weights at the end of an epoch, counted from 1, into the mean; None keeps none."""
        if share is None:
            return
        if self.weights is None:
            self.weights = self._own()
            return
        part = (1.0 - share) / (1.0 - share**epoch)
        for name, weight in self.model.named_parameters():
            self.weights[name].lerp_(weight.detach(), part)

    def settle(self) -> None:
        """Give the model its mean, if there is one."""
        if self.weights is not None:
            self._give(self.weights)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with its mean, if there is one, for a while."""
        own = None if self.weights is None else self._own()
        self.settle()
        try:
            yield
        finally:
            if own is not None:
                self._give(own)

    def _own(self) -> dict[str, Tensor]:
        return {name: weight.detach().clone() for name, weight in self.model.named_parameters()}

    @torch.no_grad()
    def _give(self, weights: dict[str, Tensor]) -> None:
        for name, weight in self.model.named_parameters():
            weight.copy_(weights[name])  # in the memory that a recorded step reads
