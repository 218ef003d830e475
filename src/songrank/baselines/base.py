"""Base class of baseline models."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from songrank.baselines.binary_histories import Scores
from songrank.data import CatalogueSplit


class Baseline:
    """A recommender that is fitted to the training split.

    ``grid`` has the options of ``fit`` to choose from, ``trials`` is the number of models that ``choose`` compares, by
    default one for each, and ``choice_queries`` the largest number of queries that it needs, None for all.
    """

    grid: tuple[dict[str, float], ...]
    deterministic: bool = True
    trials: ClassVar[int | None] = None
    choice_queries: ClassVar[int | None] = None
    fit: Callable[..., Scores]
    """Fits the model with options of ``grid``, and returns the scoring function."""

    @abstractmethod
    def __init__(self, train: CatalogueSplit) -> None: ...

    def choose(self, value: Callable[[Scores], float]) -> tuple[dict[str, float], Scores]:
        """The options with the best value, and the fitted model."""
        best: tuple[dict[str, float], Scores, float] | None = None
        for options in self.grid:
            scores = self.fit(**options)
            found = value(scores)
            if best is None or found > best[2]:
                best = options, scores, found
            del scores
        assert best is not None
        return best[:2]
