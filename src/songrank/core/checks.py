"""The one home of argument checks: every error says which argument, what it was, and what was expected."""

import numbers
from collections.abc import Sequence
from typing import NoReturn

from torch import Tensor


def fail(argument: str, value: object, expected: str, error: type[Exception] = ValueError) -> NoReturn:
    """Raise ``error`` in the project's one style."""
    raise error(f"{argument} is {value!r}; expected {expected}")


def check_int(argument: str, value: object, minimum: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``minimum``."""
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
    """Return ``value`` as a float if it lies between ``low`` and ``high``, which belong to it unless open."""
    high_open = high_open or high == float("inf")
    interval = f"a number in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        fail(argument, value, interval, TypeError)
    number = float(value)
    inside = low <= number <= high and not (low_open and number == low) and not (high_open and number == high)
    if not inside:
        fail(argument, number, interval)
    return number


def check_choice(argument: str, value: object, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of the words in ``choices``."""
    if value not in choices:
        fail(argument, value, "one of " + ", ".join(repr(choice) for choice in choices))
    return str(value)


def check_shape(argument: str, tensor: Tensor, *allowed: tuple[int, ...], meaning: str) -> None:
    """Raise unless ``tensor`` has one of the ``allowed`` shapes; ``meaning`` names its axes, e.g. ``[B, L]``."""
    if not isinstance(tensor, Tensor):
        fail(argument, type(tensor).__name__, f"a tensor of shape {meaning}", TypeError)
    if tuple(tensor.shape) not in allowed:
        shapes = " or ".join(str(list(shape)) for shape in allowed)
        raise ValueError(f"{argument} has shape {list(tensor.shape)}; expected {meaning}, here {shapes}")


def check_same_shape(argument: str, tensor: Tensor, other: str, reference: Tensor) -> None:
    """Raise unless two arguments have the same shape."""
    if tensor.shape != reference.shape:
        raise ValueError(
            f"{argument} has shape {list(tensor.shape)}; expected that of {other}, {list(reference.shape)}"
        )
