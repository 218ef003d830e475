"""Constraints on constructor arguments, declared in their annotations and checked in one place.

A class with options (a model, a loss) annotates its arguments, and ``checked`` enforces the annotations whenever one is
constructed. A recipe reads the same annotations, so that its options are checked without constructing anything.

>>> class Example:
...     @checked
...     def __init__(self, dim: Annotated[int, Whole()], gamma: Annotated[float, Number(0, 1, low_open=True)] = 0.1):
...         self.dim, self.gamma = dim, gamma
>>> Example(dim=4).gamma
0.1
>>> Example(dim=4, gamma=2)
Traceback (most recent call last):
ValueError: gamma is 2.0; expected a number in (0, 1]
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ParamSpec, TypeVar

from songrank.core.checks import check_choice, check_int, check_number, fail

__all__ = ["Annotated", "Choice", "Number", "Sizes", "Whole", "WithOptions", "check_options", "checked"]


class Constraint:
    """What an argument must be; ``None`` is left to the type annotation."""

    def check(self, argument: str, value: Any) -> Any:
        """Return the value as the constructor uses it, or raise an error that names the argument."""
        raise NotImplementedError


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number of at least ``minimum``."""

    minimum: int = 1

    def check(self, argument: str, value: Any) -> int:
        """Return the number."""
        return check_int(argument, value, self.minimum)


@dataclass(frozen=True)
class Number(Constraint):
    """A number between ``low`` and ``high``, which belong to the range unless open."""

    low: float
    high: float = float("inf")
    low_open: bool = False
    high_open: bool = False

    def check(self, argument: str, value: Any) -> float:
        """Return the number as a float."""
        return check_number(argument, value, self.low, self.high, low_open=self.low_open, high_open=self.high_open)


@dataclass(frozen=True)
class Choice(Constraint):
    """One of some words."""

    choices: tuple[str, ...]

    def check(self, argument: str, value: Any) -> str:
        """Return the word."""
        return check_choice(argument, value, self.choices)


@dataclass(frozen=True)
class Sizes(Constraint):
    """A sequence of at least ``least`` whole numbers, each at least 1."""

    least: int = 0

    def check(self, argument: str, value: Any) -> tuple[int, ...]:
        """Return the sizes as a tuple."""
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) < self.least:
            fail(argument, value, f"a sequence of at least {self.least} whole numbers", TypeError)
        return tuple(check_int(f"{argument}[{place}]", size) for place, size in enumerate(value))


@functools.cache
def constraints(init: Callable[..., Any]) -> dict[str, Constraint]:
    """The constraint of each argument that has one."""
    hints = typing.get_type_hints(init, include_extras=True)
    found = {name: _constraint(hint) for name, hint in hints.items()}
    return {name: constraint for name, constraint in found.items() if constraint is not None}


def _constraint(hint: Any) -> Constraint | None:
    """The constraint in an annotation, or in one member of a union such as ``Annotated[int, Whole()] | None``."""
    own = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Constraint)]
    inner = own or [found for part in typing.get_args(hint) if (found := _constraint(part)) is not None]
    return inner[0] if inner else None


class WithOptions:
    """A class whose constructor arguments are options of a recipe."""

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise if options that are right alone do not fit together."""


def check_options(components: Mapping[str, tuple[type[WithOptions], Mapping[str, Any]]]) -> None:
    """Raise for the first option that a constructor would reject; each class with its options has a key for messages.

    >>> check_options({"model": (WithOptions, {})})
    """

    def named(key: str, check: Callable[[], Any]) -> Any:
        try:
            return check()
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}.{error}") from None

    known = {key: constraints(inspect.unwrap(kind.__init__)) for key, (kind, _) in components.items()}
    alone = {key: named(key, partial(_checked, known[key], options)) for key, (_, options) in components.items()}
    for key, (kind, _) in components.items():
        named(key, partial(kind.check_together, alone[key]))


def _checked(known: Mapping[str, Constraint], options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: known[name].check(name, value) if name in known and value is not None else value
        for name, value in options.items()
    }


P = ParamSpec("P")
R = TypeVar("R")


def checked(init: Callable[P, R]) -> Callable[P, R]:
    """Check annotated arguments, defaults included, before ``__init__`` runs."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments.update(_checked(constraints(init), bound.arguments))
        kind = type(args[0])
        if inspect.unwrap(kind.__init__) is init and isinstance(args[0], WithOptions):  # not for a base class
            type(args[0]).check_together(bound.arguments)
        return init(*bound.args, **bound.kwargs)

    return wrapper
