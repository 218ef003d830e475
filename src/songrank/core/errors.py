"""Errors that are a user's to mend: one line that says what is wrong, where, and what to do."""

from collections.abc import Mapping
from typing import Any

_NO_MEMORY = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")  # in what torch and CUDA say


class UserError(ValueError):
    """A mistake in what was given, not in the program; the command line prints it on one line and exits with code 2.

    >>> raise UserError("learning_rate is -1; expected a number above 0")
    Traceback (most recent call last):
    songrank.core.errors.UserError: learning_rate is -1; expected a number above 0
    """

    exit_code = 2
    """Of the command line."""


class DataError(UserError):
    """A file, a table or a prepared data set that cannot be used as it is.

    Args:
        what: what is wrong, naming what was found.
        fix: what to do, or what was expected.
        file: name of the file, as the user knows it.
        line: number of the line in that file, from 1.

    >>> raise DataError("rating is 'five'", "expected a number", file="ratings.csv", line=17)
    Traceback (most recent call last):
    songrank.core.errors.DataError: ratings.csv, line 17: rating is 'five'; expected a number

    """

    def __init__(self, what: str, fix: str, *, file: str | None = None, line: int | None = None) -> None:
        where = ", ".join(part for part in (file, None if line is None else f"line {line:,}") if part)
        message = f"{where}: {what}; {fix}" if where else f"{what}; {fix}"
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))
        self.what, self.fix, self.file, self.line = what, fix, file, line

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way from one process to another."""
        return (_rebuild, (self.what, self.fix, self.file, self.line))


def _rebuild(what: str, fix: str, file: str | None, line: int | None) -> DataError:
    return DataError(what, fix, file=file, line=line)


class NotFiniteError(ValueError):
    """A score is NaN where a number is needed, so that nothing can be ranked by it.

    >>> issubclass(NotFiniteError, ValueError)
    True
    """


def memory_shortage(error: BaseException) -> str | None:
    r"""One line if memory was not enough, a machine's or a GPU's; None for any other error.

    >>> memory_shortage(RuntimeError("CUDA out of memory. Tried to allocate 9 GiB.\nMore about it"))
    'memory is not enough (CUDA out of memory. Tried to allocate 9 GiB.)'
    """
    text = str(error).partition("\n")[0]
    if not isinstance(error, MemoryError) and not any(sign in text.lower() for sign in _NO_MEMORY):
        return None
    return f"memory is not enough ({text})" if text else "memory is not enough"


def first_line(error: BaseException) -> str:
    r"""What an exception says, on one line; its type where it says nothing.

    >>> first_line(OSError("disk full\nmore about it")), first_line(KeyError())
    ('disk full', 'KeyError')
    """
    return (str(error).splitlines() or [type(error).__name__])[0]


def shown(value: object, limit: int = 60) -> str:
    r"""Quote what was found, on one line and no longer than a reader wants.

    >>> shown("abc"), shown(b"caf\xe9"), shown("x" * 99, limit=8)
    ("'abc'", "'caf\\xe9'", "'xxxxxxxx…'")
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
        text = "'" + "".join(c if c.isprintable() else repr(c)[1:-1] for c in value) + "'"
    else:
        text = repr(value)
    if len(text) <= limit + 2:
        return text
    return text[: limit + 1] + "…" + (text[0] if text[0] in "'\"" else "")


def expected(complaint: Mapping[str, Any]) -> str:
    """What pydantic expected, in our words: from one entry of ``ValidationError.errors()``.

    >>> expected({"type": "greater_than", "msg": "Input should be greater than 0"})
    'expected greater than 0'
    >>> expected({"type": "value_error", "msg": "Value error, a split that leaves something"})
    'expected a split that leaves something'
    """
    if complaint["type"] == "missing":
        return "expected a value"
    message = str(complaint["msg"]).removeprefix("Value error, ").replace("Input should be ", "")
    return "expected " + message.partition(", unable")[0]
