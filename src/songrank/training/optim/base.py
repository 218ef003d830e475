"""The optimiser interface of the training loop, and torch's optimisers with it.

Methods of torch's optimisers are called without their decorators: these import torch's compiler at the first step,
which takes seconds, and matter only if an optimiser is compiled.
"""

import inspect
from collections.abc import Callable, Container, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.processes import Processes
from songrank.core.slate import Slate

_OF_THE_DEVICE = ("fused", "capturable", "foreach")
_ADD_GROUP = inspect.unwrap(torch.optim.Optimizer.add_param_group)
_ZERO_GRAD = inspect.unwrap(torch.optim.Optimizer.zero_grad)
_STATE = inspect.unwrap(torch.optim.Optimizer.state_dict)
_LOAD_STATE = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
_ADAM_STEP, _SGD_STEP = inspect.unwrap(torch.optim.Adam.step), inspect.unwrap(torch.optim.SGD.step)


class TrainingOptimiser(torch.optim.Optimizer):
    """An optimiser of the training loop.

    A step is ``prepare(slate)``, the forward pass through ``scores``, the backward pass, ``step()``. Call ``flush()``
    before reading the weights anywhere else, and ``close()`` at the end.
    """

    def prepare(self, slate: Slate) -> None:
        """Update the weights that the forward pass over this slate reads."""

    def scores(
        self, model: nn.Module, call: Callable[[nn.Module], Tensor], points: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scores ``call(model)`` and further arguments of the loss."""
        return call(model), {}

    def leaves(self, parameter: Tensor) -> Sequence[Tensor]:
        """The tensors whose gradients a step needs for a parameter."""
        return (parameter,)

    def row_parameters(self) -> Sequence[Tensor]:
        """The parameters with sparse gradients."""
        return ()

    def share_rows(self, processes: Processes, own: Container[int]) -> None:
        """Before a step with sparse gradients: also update rows that other processes read.

        ``own`` has the identities of the parameters with rows of this process only.
        """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters."""
        _ADD_GROUP(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients."""
        _ZERO_GRAD(self, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimiser."""
        found: dict[str, Any] = _STATE(self)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of :meth:`state_dict`."""
        _LOAD_STATE(self, state_dict)

    def flush(self) -> None:
        """Apply all deferred updates."""

    def close(self) -> None:
        """Apply all deferred updates and restore the modules of the model."""

    def resume(self, state: dict[str, Any]) -> None:
        """Load a state that may have been saved on another kind of device."""
        own = [{name: group[name] for name in _OF_THE_DEVICE if name in group} for group in self.param_groups]
        self.load_state_dict(state)
        for group, options in zip(self.param_groups, own, strict=True):
            group.update({name: value for name, value in options.items() if value is not None})


class Adam(torch.optim.Adam, TrainingOptimiser):
    """``torch.optim.Adam``."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights."""
        _ADAM_STEP(self)


class SGD(torch.optim.SGD, TrainingOptimiser):
    """``torch.optim.SGD``."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights."""
        _SGD_STEP(self)
