"""Constraints of constructor arguments, declared as annotations such as ``gamma: Annotated[float, Number(0, 1)]``.

``checked`` enforces them on construction; recipes are validated against them without constructing anything.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ParamSpec, Self, TypeVar

from songrank.core.checks import check_choice, check_int, check_number, fail
from songrank.core.limits import LAYERS

__all__ = [
    "Annotated",
    "Choice",
    "Count",
    "Layers",
    "Number",
    "Sizes",
    "Whole",
    "WithOptions",
    "check_options",
    "checked",
]


@dataclass(frozen=True)
class Constraint:
    """A constraint on an argument; ``None`` is left to the type annotation."""

    check: Callable[[str, Any], Any]
    """Maps the argument's name and value to the validated value; raises if it is invalid."""


def Whole(minimum: int = 1) -> Constraint:
    """A whole number of at least ``minimum``."""
    return Constraint(partial(check_int, minimum=minimum))


def Number(low: float, high: float = float("inf"), *, low_open: bool = False, high_open: bool = False) -> Constraint:
    """A number between ``low`` and ``high``; an open bound is excluded."""
    return Constraint(partial(check_number, low=low, high=high, low_open=low_open, high_open=high_open))


def Choice(choices: tuple[str, ...]) -> Constraint:
    """One of these strings."""
    return Constraint(partial(check_choice, choices=choices))


def Layers() -> Constraint:
    """A number of layers or blocks, at least 1; more than :data:`songrank.core.limits.LAYERS` are an error."""

    def check(argument: str, value: Any) -> int:
        number = check_int(argument, value, minimum=1)
        if number > LAYERS:
            fail(argument, value, f"at most {LAYERS}")
        return number

    return Constraint(check)


def Sizes(least: int = 0) -> Constraint:
    """A sequence of at least ``least`` whole numbers, each at least 1; its length is limited as in :func:`Layers`."""

    def check(argument: str, value: Any) -> tuple[int, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) < least:
            fail(argument, value, f"a sequence of at least {least} whole numbers", TypeError)
        if len(value) > LAYERS:
            fail(argument, value, f"at most {LAYERS} whole numbers")
        return tuple(check_int(f"{argument}[{place}]", size) for place, size in enumerate(value))

    return Constraint(check)


Count = Annotated[int, Whole()]


@functools.cache
def constraints(init: Callable[..., Any]) -> dict[str, Constraint]:
    """The constraints of the annotated arguments."""
    hints = typing.get_type_hints(init, include_extras=True)
    return {name: found for name, hint in hints.items() if (found := _constraint(hint)) is not None}


def _constraint(hint: Any) -> Constraint | None:
    """The constraint in an annotation, or in one member of a union such as ``Annotated[int, Whole()] | None``."""
    own = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Constraint)]
    inner = own or [found for part in typing.get_args(hint) if (found := _constraint(part)) is not None]
    return inner[0] if inner else None


class WithOptions:
    """Base class of components whose constructor arguments are recipe options."""

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise if options are valid individually but incompatible."""

    @classmethod
    def build(cls, options: Mapping[str, Any], sizes: Mapping[str, Any]) -> Self:
        """An instance with these options and with those ``sizes`` that the constructor takes."""
        known = inspect.signature(cls).parameters
        return cls(**{name: size for name, size in sizes.items() if name in known}, **options)


def check_options(components: Mapping[str, tuple[type[WithOptions], Mapping[str, Any]]]) -> None:
    """Raise for the first invalid option; keys of ``components`` prefix the message."""

    def named(key: str, check: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return check(*arguments)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}.{error}") from None

    alone = {
        key: named(key, _checked, constraints(inspect.unwrap(kind.__init__)), options)
        for key, (kind, options) in components.items()
    }
    for key, (kind, _) in components.items():
        named(key, kind.check_together, alone[key])


def _checked(known: Mapping[str, Constraint], options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: known[name].check(name, value) if name in known and value is not None else value
        for name, value in options.items()
    }


P = ParamSpec("P")
R = TypeVar("R")


def checked(init: Callable[P, R]) -> Callable[P, R]:
    """Validate annotated arguments, including defaults, before ``__init__`` runs."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments.update(_checked(constraints(init), bound.arguments))
        made = args[0]
        if isinstance(made, WithOptions) and inspect.unwrap(type(made).__init__) is init:  # not for a base class
            type(made).check_together(bound.arguments)
        return init(*bound.args, **bound.kwargs)

    return wrapper
