"""The methods of the paper, and the settings tried for each: the same number for all methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from songrank.analysis.trials import best_first

RATES = (1.0, 0.4, 2.5)
"""Learning rates to try, as multiples of the recipe's."""
RATE_STEP = 2.5
"""Ratio of neighbouring learning rates in a second round."""


@dataclass(frozen=True)
class Method:
    """A loss with two alternatives for its options, in the notation of ``songrank train``.

    Args:
        name: name of the method, also that of the loss unless ``loss`` is given.
        title: title in tables.
        options: two alternatives, each a tuple of changes of a recipe; for a loss without options, two weight decays.
        loss: name of the loss, if several methods have the same.
        fixed: changes of a recipe that all settings share.
        beyond: for a second round of settings, the alternatives next to the first and next to the second option.
        rates: learning rates to try, as multiples of the recipe's.

    >>> method = Method("song", "SONG", (("loss.gamma=0.1",), ("loss.gamma=0.3",)))
    >>> [setting.words for setting in method.settings(2)]
    ['gamma=0.1', 'gamma=0.3']
    >>> method.settings(6)[5].words
    'gamma=0.3, learning rate × 2.5'
    """

    name: str
    title: str
    options: tuple[tuple[str, ...], tuple[str, ...]]
    loss: str = ""
    fixed: tuple[str, ...] = ()
    beyond: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    rates: tuple[float, ...] = RATES

    def settings(self, budget: int) -> list[Setting]:
        """The first ``budget`` settings: both options at the recipe's learning rate, then at the other rates."""
        return [Setting(self._changes(options), rate) for rate in self.rates for options in self.options][:budget]

    def around(self, tried: Mapping[Setting, float | None]) -> list[Setting]:
        """The second round: two settings around the best of the first, given its values on validation.

        One has the next learning rate, on the side that was not tried, the other the alternative next to the best
        option.

        >>> weights = [(f"loss.sigma={sigma}",) for sigma in (1, 2, 4, 8)]
        >>> method = Method("bpr", "BPR", (weights[1], weights[2]), beyond=(weights[0], weights[3]), rates=(1.0, 0.4))
        >>> tried = dict(zip(method.settings(4), (0.1, 0.2, 0.1, 0.1), strict=True))
        >>> [setting.words for setting in method.around(tried)]
        ['sigma=4, learning rate × 2.5', 'sigma=8']
        """
        best = [*best_first(tried), *tried][0]
        step = RATE_STEP if best.rate == max(self.rates) else 1.0 / RATE_STEP
        place = [self._changes(options) for options in self.options].index(best.changes)
        other = Setting(self._changes(self.beyond[place]), best.rate)
        return [Setting(best.changes, round(best.rate * step, 6)), other]

    def is_outermost(self, setting: Setting) -> bool:
        """Whether a setting has an alternative of the second round, beyond which none was tried."""
        return setting.changes in [self._changes(options) for options in self.beyond]

    def _changes(self, options: tuple[str, ...]) -> tuple[str, ...]:
        return (f"loss={self.loss or self.name}", *self.fixed, *options)


@dataclass(frozen=True)
class Setting:
    """A setting to try: changes of a recipe, and a factor of its learning rate."""

    changes: tuple[str, ...]
    rate: float = 1.0

    @property
    def words(self) -> str:
        """The setting in readable form: each option once, with its final value."""
        last = dict(change.split("=", 1) for change in self.changes[1:])
        options = [f"{key.removeprefix('loss.').removeprefix('fine_tuning.')}={value}" for key, value in last.items()]
        return ", ".join(options + ([f"learning rate × {self.rate:g}"] if self.rate != 1.0 else []))


def _values(key: str, first: float, second: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (f"{key}={first}",), (f"{key}={second}",)


def _k_song(*choices: tuple[float, int]) -> Method:
    first, second = ((f"loss.gamma={gamma}", f"loss.k={k}") for gamma, k in choices)
    return Method("k-song", "K-SONG", (first, second))


_RECOMMENDATION = (
    Method("ranknet", "RankNet", _values("loss.sigma", 1.0, 3.0)),
    Method("listnet", "ListNet", _values("fine_tuning.weight_decay", 3e-7, 3e-6)),
    Method("listmle", "ListMLE", _values("fine_tuning.weight_decay", 3e-7, 3e-6)),
    Method("lambdarank", "LambdaRank", _values("loss.sigma", 1.0, 0.3)),
    Method("approx-ndcg", "ApproxNDCG", _values("loss.temperature", 1.0, 0.1)),
    Method(
        "neural-ndcg",
        "NeuralNDCG",
        (
            ("loss.temperature=1.0", "loss.sinkhorn_iterations=10"),
            ("loss.temperature=0.3", "loss.sinkhorn_iterations=10"),
        ),
    ),
    Method("song", "SONG", _values("loss.gamma", 0.1, 0.3)),
    _k_song((0.1, 300), (0.3, 100)),
)
_SEARCH = (
    Method("ranknet", "RankNet", _values("loss.sigma", 1.0, 3.0)),
    Method("listnet", "ListNet", _values("fine_tuning.weight_decay", 0.0, 1e-5)),
    Method("listmle", "ListMLE", _values("fine_tuning.weight_decay", 0.0, 1e-5)),
    Method("lambdarank", "LambdaRank", _values("loss.sigma", 1.0, 3.0)),
    Method("approx-ndcg", "ApproxNDCG", _values("loss.temperature", 1.0, 0.1)),
    Method("neural-ndcg", "NeuralNDCG", _values("loss.temperature", 1.0, 0.3)),
    Method("song", "SONG", _values("loss.gamma", 0.3, 1.0)),
    _k_song((0.3, 10), (1.0, 20)),
)
_WHOLE = "loss.gamma=1.0"  # every slate has all labels, so that the memory is exact
_LABELLING = (
    Method("bce", "BCE (baseline)", _values("fine_tuning.weight_decay", 0.0, 1e-6)),
    Method("approx-ndcg", "ApproxNDCG", _values("loss.temperature", 1.0, 0.1)),
    Method("neural-ndcg", "NeuralNDCG", _values("loss.temperature", 1.0, 0.3)),
    Method("song", "SONG", ((_WHOLE, "loss.margin=1.0"), (_WHOLE, "loss.margin=3.0"))),
    Method("k-song", "K-SONG", ((_WHOLE, "loss.margin=1.0", "loss.k=10"), (_WHOLE, "loss.margin=3.0", "loss.k=10"))),
)
METHODS = {"recommendation": _RECOMMENDATION, "search": _SEARCH, "labelling": _LABELLING}
"""By task, in the order of the paper's tables. γ and K are values of the paper, and γ is 1 for complete lists."""


def find_method(task: str, name: str) -> Method:
    """The method of this name.

    >>> find_method("search", "song").title
    'SONG'
    """
    return next(method for method in METHODS[task] if method.name == name)
