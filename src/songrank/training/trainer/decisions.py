"""Decisions that must be the same on all processes that train one model: stop, save, best, diverged."""


class Decisions:
    """Of one process: every question is answered at once, by the process itself.

    >>> Decisions().any(True), Decisions().first(0.5)
    (True, 0.5)
    """

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any process: a stop that was asked for, a loss that is not finite."""
        return flag

    def first(self, value: float) -> float:
        """The first process's value: a validation figure, a time."""
        return value
