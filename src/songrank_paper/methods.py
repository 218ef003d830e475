"""The methods of the paper, and the settings tried for each: the same number for all methods."""

from __future__ import annotations

from dataclasses import dataclass

RATES = (1.0, 0.4, 2.5)
"""Learning rates to try, as multiples of the recipe's."""


@dataclass(frozen=True)
class Method:
    """A loss with two alternatives for its options, in the notation of ``songrank train``.

    Args:
        name: name of the loss.
        title: title in tables.
        options: two alternatives, each a tuple of changes of a recipe; for a loss without options, two weight decays.

    >>> method = Method("song", "SONG", (("loss.gamma=0.1",), ("loss.gamma=0.3",)))
    >>> [setting.words for setting in method.settings(2)]
    ['gamma=0.1', 'gamma=0.3']
    >>> method.settings(6)[5].words
    'gamma=0.3, learning rate × 2.5'
    """

    name: str
    title: str
    options: tuple[tuple[str, ...], tuple[str, ...]]

    def settings(self, budget: int) -> list[Setting]:
        """The first ``budget`` settings: both options at the recipe's learning rate, then at the other rates."""
        return [Setting((f"loss={self.name}", *options), rate) for rate in RATES for options in self.options][:budget]


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
