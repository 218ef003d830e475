"""Scores at two points, or at one with their derivative, for the faster losses.

Any ``nn.Module`` works: its parameters are replaced for the call only (``torch.func.functional_call``). Both points see
the same random numbers, such as dropout's, and the model's buffers (running statistics) are updated once. Attention is
computed without fused kernels: their dropout cannot be repeated, and they have no forward-mode derivative.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from songrank.core.checks import fail
from songrank.core.errors import UserError

Call = Callable[[nn.Module], Tensor]
"""A call of a model, such as ``lambda model: model(query, item)``."""

_aten = torch.ops.aten
_DRAWS = {  # independent of the values of tensors
    getattr(_aten, name)
    for name in (
        *(kind + ending for kind in ("rand", "randn", "randint", "randperm") for ending in ("", "_like")),
        *("random_", "uniform_", "normal_", "exponential_", "geometric_", "log_normal_", "cauchy_", "bernoulli_"),
    )
    if hasattr(_aten, name)
}
_DROPOUTS = {_aten.native_dropout, _aten._fused_dropout}
_forward_mode: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def forward_both(model: nn.Module, previous: Mapping[str, Tensor], call: Call) -> tuple[Tensor, Tensor]:
    """Scores at the model's weights and at ``previous`` ones (by name; the others stay), with the same random numbers.

    Gradients flow to both. The second pass reuses the numbers of the first, so it must draw the same shapes in the same
    order. This also works in a CUDA graph, since it acts only while Python runs.

    >>> model = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5))
    >>> same = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    >>> now, before = forward_both(model, same, lambda model: model(torch.ones(1, 3)))
    >>> torch.equal(now, before)
    True
    """
    _check_names(model, previous, "previous")
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    random = _Repeated()
    with sdpa_kernel(SDPBackend.MATH):
        with random:
            now = call(model)
        random.again()
        with random:
            before = _at(model, {**previous, **buffers}, call)
    random.finish()
    return now, before


def directional(model: nn.Module, direction: Mapping[str, Tensor], call: Call) -> tuple[Tensor, Tensor]:
    """Scores, and their derivative along ``direction`` = w_t − w_{t−1} (by name; the others stay).

    One pass in forward mode; gradients flow to the scores only. A model with a layer without a forward-mode
    derivative is evaluated at w_t − direction instead, which agrees to first order; it warns once.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> step, features = {"weight": torch.tensor([[1.0, 3.0]])}, torch.ones(1, 2)
    >>> scores, change = directional(model, step, lambda model: model(features))
    >>> change, scores.requires_grad, change.requires_grad
    (tensor([[4.]]), True, False)
    """
    _check_names(model, direction, "direction")
    able = _forward_mode.get(model)
    if able:
        return _along(model, direction, call)
    reason = None
    if able is None:
        undo = _undo(model)
        try:
            found = _along(model, direction, call)
        except RuntimeError as error:  # NotImplementedError is one
            undo()
            reason = str(error).splitlines()[0]
        else:
            _forward_mode[model] = True
            return found
    previous = {name: (model.get_parameter(name) - step).detach() for name, step in direction.items()}
    now, before = forward_both(model, previous, call)
    if reason is not None:
        _forward_mode[model] = False
        name = type(model).__name__
        warnings.warn(f"{name} has no forward-mode derivative, using two forward passes: {reason}", stacklevel=2)
    return now, (now - before).detach()


def _along(model: nn.Module, direction: Mapping[str, Tensor], call: Call) -> tuple[Tensor, Tensor]:
    with sdpa_kernel(SDPBackend.MATH), forward_ad.dual_level():
        weights = {name: (model.get_parameter(name), step) for name, step in direction.items()}
        duals = {name: forward_ad.make_dual(*pair) for name, pair in weights.items()}  # type: ignore[no-untyped-call]
        now, change = forward_ad.unpack_dual(_at(model, duals, call))  # type: ignore[no-untyped-call]
        return now, torch.zeros_like(now) if change is None else change.detach()


def _at(model: nn.Module, values: Mapping[str, Tensor], call: Call) -> Tensor:
    found: Tensor = functional_call(_Asked(model, call), {f"model.{name}": value for name, value in values.items()}, ())
    return found


class _Asked(nn.Module):
    """A model and a call of it as one module."""

    def __init__(self, model: nn.Module, call: Call) -> None:
        super().__init__()
        self.model, self.call = model, call
        self.training = model.training

    def forward(self) -> Tensor:
        return self.call(self.model)


class _Repeated(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Record random numbers; after :meth:`again` return them in the same order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: list[tuple[Any, torch.Size, Tensor]] = []
        self.next: int | None = None

    def again(self) -> None:
        """Return the recorded numbers from here on."""
        self.next = 0

    def finish(self) -> None:
        """Raise if some were not reused."""
        if self.next != len(self.kept):
            raise UserError(_differs(f"{len(self.kept)} draws in the first pass, {self.next} in the second"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = func.overloadpacket
        if kind in _DROPOUTS and _share_dropped(func, args, kwargs):
            return self._dropout(func, args, kwargs)
        if kind in _DRAWS:
            return self._draw(func, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags and _share_dropped(func, args, kwargs):
            raise UserError(f"random numbers of {func} cannot be repeated in a second forward pass; use another layer")
        return func(*args, **kwargs)

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        in_place = func._schema.is_mutable
        if self.next is None:
            drawn: Tensor = func(*args, **kwargs)
            self.kept.append((func, drawn.shape, drawn.clone()))
            return drawn
        kept = self._take(func, args[0].shape if in_place else None)
        return args[0].copy_(kept) if in_place else kept.clone()

    def _dropout(self, func: Any, args: Any, kwargs: Any) -> tuple[Tensor, Tensor]:
        if self.next is None:
            output, mask = func(*args, **kwargs)
            self.kept.append((func, mask.shape, mask.clone()))
            return output, mask
        mask = self._take(func, args[0].shape)
        dropped = _share_dropped(func, args, kwargs)
        return args[0] * mask * (1.0 / (1.0 - dropped) if dropped < 1.0 else 0.0), mask

    def _take(self, func: Any, shape: torch.Size | None) -> Tensor:
        assert self.next is not None
        if self.next == len(self.kept):
            raise UserError(_differs(f"{len(self.kept)} draws in the first pass, more in the second"))
        first, size, kept = self.kept[self.next]
        if first is not func or shape not in (None, size):
            asked = f"{func} of {'any shape' if shape is None else list(shape)}"
            raise UserError(_differs(f"{first} of {list(size)} in the first pass, {asked} in the second"))
        self.next += 1
        return kept


def _share_dropped(func: Any, args: Any, kwargs: Any) -> float:
    """The dropout probability of an operation; 1 for any other random operation."""
    given = {**{a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}, **kwargs}
    given |= {a.name: value for a, value in zip(func._schema.arguments, args, strict=False)}
    if given.get("train") is False or given.get("training") is False:
        return 0.0
    if func.overloadpacket is _aten._fused_dropout:
        return 1.0 - float(given["p"])  # here p is the probability to keep
    return float(next((given[name] for name in ("dropout_p", "dropout", "p") if name in given), 1.0))


def _differs(how: str) -> str:
    return f"the model draws different random numbers in the second forward pass: {how}; expected the same draws"


def _undo(model: nn.Module) -> Callable[[], None]:
    """A function that restores the current random state and the buffers of the model."""
    devices = {weight.device for weight in model.parameters() if weight.is_cuda}
    states = {device: torch.cuda.get_rng_state(device) for device in devices}
    state = torch.get_rng_state()
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]

    def undo() -> None:
        torch.set_rng_state(state)
        for device, own in states.items():
            torch.cuda.set_rng_state(own, device)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)

    return undo


def _check_names(model: nn.Module, given: Mapping[str, Tensor], argument: str) -> None:
    strange = set(given) - {name for name, _ in model.named_parameters()}
    if strange:
        fail(argument, sorted(strange)[0], "names of the model's parameters")
