"""The one error of this room: what is wrong in the data, where it stands, and what to do about it."""

from songrank.errors import UserError


class DataError(UserError):
    """A file, a table or a prepared data set that cannot be used as it is.

    Args:
        what: what is wrong, naming what was found.
        fix: what to do, or what was expected.
        file: name of the file, as the user knows it.
        line: number of the line in that file, from 1.

    >>> raise DataError("rating is 'five'", "expected a number", file="ratings.csv", line=17)
    Traceback (most recent call last):
    songrank.data.errors.DataError: ratings.csv, line 17: rating is 'five'; expected a number

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
