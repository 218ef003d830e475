"""The losses of the benchmark, with the settings to try: the same number for all.

Scores are cosines in ±1. A loss with a temperature has τ among its options; for the others the cosine is divided by
``model.temperature``. The options of a loss are a ladder of four: the two in the middle are tried in the first round,
one of the others in the second.

Amazon-Health with matrix factorisation was run with narrower temperatures of the likelihood losses than the other sets
and backbones; the wider ones were fixed before any of these was run.
"""

from __future__ import annotations

from songrank_paper.methods import Method

RATES = (1.0, 0.4)
"""Learning rates of the first round, as multiples of the recipe's; the second round tries 2.5 or 0.16."""
_MEMORY = ("loss.gamma=0.3",)
_EXPONENTIAL = (*_MEMORY, "loss.surrogate=exponential")
_Options = tuple[str, ...]


def _method(
    name: str, title: str, ladder: tuple[_Options, _Options, _Options, _Options], *fixed: str, loss: str = ""
) -> Method:
    below, first, second, above = ladder
    return Method(name, title, (first, second), loss, fixed, (below, above), RATES)


def _ladder(*values: float, key: str = "loss.temperature") -> tuple[_Options, _Options, _Options, _Options]:
    below, first, second, above = ((f"{key}={value}",) for value in values)
    return below, first, second, above


def _each(*rungs: str) -> tuple[_Options, _Options, _Options, _Options]:
    """A ladder of several options each, as ``"key=value key=value"``."""
    below, first, second, above = (tuple(rung.split()) for rung in rungs)
    return below, first, second, above


def _methods(
    temperatures: tuple[float, ...], powers: tuple[float, ...], weighted: tuple[str, ...]
) -> tuple[Method, ...]:
    """All methods, with the ladders of the temperature, of PSL's temperature, and of τ and τ_w of SL@20."""
    return (
        _method("bpr", "BPR", _ladder(1.0, 2.5, 5.0, 10.0, key="loss.sigma")),
        _method("softmax", "softmax", _ladder(*temperatures, key="model.temperature"), loss="sampled-softmax"),
        _method("bsl", "BSL", _ladder(*temperatures)),
        _method("psl", "PSL", _ladder(*powers), "model.temperature=2.0"),  # scores in ±1/2, as published
        _method(
            "sl-at-k",
            "SL@20",
            _each(*weighted),
            "loss.k=20",
        ),
        _method("gbce", "gBCE", _ladder(*temperatures, key="model.temperature")),
        _method("lambdaloss", "LambdaLoss@20", _ladder(1.0, 2.5, 5.0, 10.0, key="loss.sigma"), "loss.k=20"),
        _method("listwise-ce", "SOLC", _ladder(*temperatures), *_MEMORY),
        _method("song", "SONG, squared hinge", _ladder(0.25, 0.5, 1.0, 2.0, key="model.temperature"), *_MEMORY),
        _method(
            "k-song",
            "K-SONG, squared hinge",
            _each(
                "model.temperature=0.5 loss.k=20",
                "model.temperature=0.5 loss.k=100",
                "model.temperature=1.0 loss.k=100",
                "model.temperature=1.0 loss.k=20",
            ),
            *_MEMORY,
        ),
        _method(
            "song-exponential",
            "SONG, exponential",
            _each(
                "loss.temperature=0.2 loss.rank_offset=100.0",
                "loss.temperature=0.1 loss.rank_offset=100.0",
                "loss.temperature=0.3 loss.rank_offset=0.0",
                "loss.temperature=0.3 loss.rank_offset=10.0",
            ),
            *_EXPONENTIAL,
            loss="song",
        ),
        _method(
            "k-song-exponential",
            "K-SONG, exponential",
            _each(
                "loss.k=20 loss.temperature=0.1 loss.rank_offset=100.0",
                "loss.k=100 loss.temperature=0.1 loss.rank_offset=100.0",
                "loss.k=100 loss.temperature=0.3 loss.rank_offset=0.0",
                "loss.k=20 loss.temperature=0.3 loss.rank_offset=0.0",
            ),
            *_EXPONENTIAL,
            loss="k-song",
        ),
    )


_NARROW = _methods(
    (0.05, 0.1, 0.2, 0.3),
    (0.025, 0.05, 0.1, 0.15),
    (
        "loss.temperature=0.1 loss.weight_temperature=0.5",
        "loss.temperature=0.1 loss.weight_temperature=2.5",
        "loss.temperature=0.2 loss.weight_temperature=2.5",
        "loss.temperature=0.3 loss.weight_temperature=2.5",
    ),
)
_WIDE = _methods(
    (0.2, 0.1, 0.3, 0.5),
    (0.1, 0.05, 0.15, 0.25),
    (
        "loss.temperature=0.2 loss.weight_temperature=2.5",
        "loss.temperature=0.1 loss.weight_temperature=2.5",
        "loss.temperature=0.3 loss.weight_temperature=2.5",
        "loss.temperature=0.5 loss.weight_temperature=2.5",
    ),
)


def benchmark_methods(name: str, backbone: str) -> tuple[Method, ...]:
    """The methods for a set and a backbone, in the order of the tables.

    >>> [method.name for method in benchmark_methods("ir-gowalla", "mf")][:3]
    ['bpr', 'softmax', 'bsl']
    """
    return _NARROW if (name, backbone) == ("ir-health", "mf") else _WIDE


OBJECTIVES = {
    "bpr": "ln(1 + exp(−σx)) over pairs",
    "softmax": "−ln likelihood",
    "bsl": "−ln likelihood among irrelevant items",
    "psl": "ln Σ (1 + tanh x)^(1/τ)",
    "sl-at-k": "−ln likelihood, weight σ((h − β)/τ_w), K = 20",
    "gbce": "binary cross-entropy, calibrated, t = 0.75",
    "lambdaloss": "LambdaLoss@K, K = 20",
    "listwise-ce": "−ln likelihood, moving average",
}
"""What the losses other than SONG and K-SONG optimise, in tables."""
SOFTMAX, SONG = "softmax", "song-exponential"
"""The baselines of the paired differences."""
