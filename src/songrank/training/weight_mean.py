"""A moving mean of a model's weights over epochs: evaluated and kept, while training goes on from the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightMean:
    """The mean w̄ ← share · w̄ + (1 − share) · w, taken at the end of each epoch; the first weights are the first mean.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> mean = WeightMean(model)
    >>> for value in (1.0, 2.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     mean.follow(0.75)
    >>> with mean.in_place():
    ...     model.weight.item()
    1.25
    >>> model.weight.item()
    2.0
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

    def follow(self, share: float | None) -> None:
        """Take the weights of this moment into the mean; None keeps none."""
        if share is None:
            return
        if self.weights is None:
            self.weights = self._own()
            return
        for name, weight in self.model.named_parameters():
            self.weights[name].lerp_(weight.detach(), 1.0 - share)

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
