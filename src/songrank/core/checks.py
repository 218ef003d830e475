"""Argument checks: every error names the argument, its value and what was expected."""

import numbers
from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from songrank.core.errors import shown


def fail(argument: str, value: object, expected: str, error: type[Exception] = ValueError) -> NoReturn:
    """Raise ``error`` with a message in the common format."""
    raise error(f"{argument} is {shown(value, 200)}; expected {expected}")


def check_int(argument: str, value: object, minimum: int = 1) -> int:
    """Return ``value`` if it is an integer of at least ``minimum``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        fail(argument, value, f"a whole number of at least {minimum}", TypeError)
    number = int(value.__index__())
    if number < minimum:
        fail(argument, number, f"a whole number of at least {minimum}")
    return number


def check_number(
    argument: str,
    value: object,
    low: float,
    high: float = float("inf"),
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return ``value`` as a float if it lies between ``low`` and ``high``; an open bound is excluded."""
    high_open = high_open or high == float("inf")
    interval = f"a number in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        fail(argument, value, interval, TypeError)
    number = float(value)
    if not low <= number <= high or (low_open and number == low) or (high_open and number == high):
        fail(argument, number, interval)
    return number


def check_choice(argument: str, value: object, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if value not in choices:
        fail(argument, value, "one of " + ", ".join(map(repr, choices)))
    return str(value)


def check_tensor(argument: str, value: object, shape: str) -> None:
    """Raise unless ``value`` is a tensor; ``shape`` names the expected axes, e.g. ``[B, L]``."""
    if not isinstance(value, Tensor):
        fail(argument, type(value).__name__, f"a tensor of shape {shape}", TypeError)


def check_type(argument: str, tensor: Tensor, dtype: torch.dtype) -> None:
    """Raise unless ``tensor`` has this dtype."""
    if tensor.dtype != dtype:
        fail(argument, tensor.dtype, f"dtype {dtype}", TypeError)


def check_shape(argument: str, tensor: Tensor, *allowed: tuple[int, ...], meaning: str) -> None:
    """Raise unless ``tensor`` has one of the ``allowed`` shapes; ``meaning`` names its axes, e.g. ``[B, L]``."""
    check_tensor(argument, tensor, meaning)
    if tuple(tensor.shape) not in allowed:
        shapes = " or ".join(str(list(shape)) for shape in allowed)
        raise ValueError(f"{argument} has shape {list(tensor.shape)}; expected {meaning}, here {shapes}")


def check_same_shape(argument: str, tensor: Tensor, other: str, reference: Tensor) -> None:
    """Raise unless two arguments have the same shape."""
    if tensor.shape != reference.shape:
        expected = f"the shape of {other}, {list(reference.shape)}"
        raise ValueError(f"{argument} has shape {list(tensor.shape)}; expected {expected}")
