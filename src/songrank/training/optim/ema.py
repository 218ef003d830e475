"""Exponential moving average (EMA) of the weights over epochs; evaluated and kept, but not trained."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightEMA:
    """The average w̄ₙ = Σ sⁿ⁻ⁱ wᵢ / Σ sⁿ⁻ⁱ of the weights at the end of epochs i = 1 … n of a stage, with decay s.

    This is an EMA with Adam's bias correction: close to the mean at first, later over about 1 / (1 − s) epochs.

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

    def begin(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Start without an average, or from a copy of a given one."""
        self.weights = None
        if weights is not None:
            place = {name: weight.device for name, weight in self.model.named_parameters()}
            self.weights = {name: mean.detach().to(place[name], copy=True) for name, mean in weights.items()}

    def follow(self, decay: float | None, epoch: int) -> None:
        """Update the average at the end of an epoch, from 1; nothing if ``decay`` is None."""
        if decay is None:
            return
        if self.weights is None:
            self.begin(dict(self.model.named_parameters()))
            return
        part = (1.0 - decay) / (1.0 - decay**epoch)
        for name, weight in self.model.named_parameters():
            self.weights[name].lerp_(weight.detach(), part)

    def settle(self) -> None:
        """Load the average, if any, into the model."""
        self._load(self.weights or {})

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the average, if any, inside the block."""
        own = {name: self.model.get_parameter(name).detach().clone() for name in self.weights or {}}
        self.settle()
        try:
            yield
        finally:
            self._load(own)

    @torch.no_grad()
    def _load(self, weights: Mapping[str, Tensor]) -> None:
        for name, weight in weights.items():
            self.model.get_parameter(name).copy_(weight)  # in place: a captured CUDA graph reads this memory
