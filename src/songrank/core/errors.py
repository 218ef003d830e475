"""Errors that users can fix, each with a one-line message: what is wrong, where, and what to do."""

import difflib
import itertools
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from songrank.core.text import printable

_NO_MEMORY = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")  # in errors of torch and CUDA


class UserError(ValueError):
    """Invalid input; the command prints the message on one line and exits with ``exit_code``."""

    exit_code = 2


class ReportedError(UserError):
    """An error that another process prints; the command exits with ``exit_code`` only."""


class DataError(UserError):
    """A file, table or prepared data set that cannot be used.

    Args:
        what: the problem, with the value found.
        fix: the remedy, or the expected value.
        file: name of the file as given by the user.
        line: line number, from 1.

    >>> raise DataError("rating is 'five'", "expected a number", file="ratings.csv", line=17)
    Traceback (most recent call last):
    songrank.core.errors.DataError: ratings.csv, line 17: rating is 'five'; expected a number
    """

    def __init__(self, what: str, fix: str, *, file: str | None = None, line: int | None = None) -> None:
        where = ", ".join(part for part in (file, None if line is None else f"line {line:,}") if part)
        message = f"{where}: {what}; {fix}" if where else f"{what}; {fix}"
        super().__init__(printable(message))
        self.what, self.fix, self.file, self.line = what, fix, file, line

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling between processes."""
        return (partial(DataError, file=self.file, line=self.line), (self.what, self.fix))


class NotFiniteError(ValueError):
    """A score is NaN, so items cannot be ranked."""


def memory_shortage(error: BaseException) -> str | None:
    """A one-line message if the host or a GPU is out of memory; None for any other error."""
    text = str(error).partition("\n")[0]
    if not isinstance(error, MemoryError) and not any(sign in text.lower() for sign in _NO_MEMORY):
        return None
    return f"out of memory ({text})" if text else "out of memory"


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; its type if the message is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def suggestion(name: object, known: Iterable[str], otherwise: str | None = None) -> str:
    """The remedy for an unknown name: the closest known name, else ``otherwise``, by default all known names.

    >>> suggestion("gama", ["gamma", "margin"])
    "did you mean 'gamma'?"
    >>> suggestion("depth", ["gamma", "margin"])
    'expected one of gamma, margin'
    """
    names = list(known)
    near = difflib.get_close_matches(name if isinstance(name, str) and len(name) <= 100 else shown(name), names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return otherwise or f"expected one of {', '.join(names)}"


def shown(value: object, limit: int = 60) -> str:
    """Quote a value on one line, truncated to ``limit`` characters."""
    if isinstance(value, bytes):
        value = value[: 4 * limit + 4].decode("utf-8", "backslashreplace")
        text = f"'{printable(value)}'"
    else:
        text = _bounded(value, limit + 8)
    if len(text) <= limit + 2:
        return text
    return text[: limit + 1] + "…" + (text[0] if text[0] in "'\"" else "")


def _bounded(value: object, limit: int) -> str:
    """The beginning of ``repr(value)``, more than ``limit`` characters if it is longer, in bounded time."""
    if limit < 0:
        return "…"
    if isinstance(value, str):
        return repr(value[: limit + 4])
    if isinstance(value, int) and value.bit_length() > 4 * limit:
        return hex(value >> (value.bit_length() - 4 * limit))  # repr takes quadratic time, or raises
    if type(value) not in (list, tuple, dict, set, frozenset):
        return repr(value)
    assert isinstance(value, list | tuple | dict | set | frozenset)
    limit -= 2
    few = list(itertools.islice(value.items() if isinstance(value, dict) else value, limit + 4))
    left, parts = limit, []
    for part in few:
        if left <= 0:
            break
        one = ": ".join(_bounded(each, left) for each in part) if isinstance(value, dict) else _bounded(part, left)
        parts.append(one)
        left -= len(one) + 2
    begin, end = {list: ("[", "]"), tuple: ("(", ")")}.get(type(value), ("{", "}"))
    if isinstance(value, tuple) and len(value) == 1:
        end = ",)"
    if isinstance(value, set | frozenset) and (not value or isinstance(value, frozenset)):
        begin, end = f"{type(value).__name__}({begin if value else ''}", f"{end if value else ''})"
    return begin + ", ".join(parts) + end


def expected(complaint: Mapping[str, Any]) -> str:
    """Describe the expected value, from one entry of ``ValidationError.errors()``."""
    if complaint["type"] == "missing":
        return "expected a value"
    message = str(complaint["msg"]).removeprefix("Value error, ").replace("Input should be ", "")
    return "expected " + message.partition(", unable")[0]
