"""songrank: train ranking models by optimising NDCG itself.

>>> import torch
>>> from songrank import SONG, Relevance, SlateSampler
>>> relevance = Relevance.from_pairs(query=[0, 0, 1], item=[1, 2, 0], num_items=50)
>>> sampler = SlateSampler(relevance, queries_per_batch=2, relevant=2, irrelevant=8)
>>> loss = SONG(relevance.num_pairs)
>>> scores = torch.nn.Embedding(2, 50)                       # a model: any scores[B, L] will do
>>> for slate in sampler:
...     loss(scores(slate.query).gather(1, slate.item), slate).backward()
"""

from typing import TYPE_CHECKING

from songrank.core.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from songrank import data, functional, losses, metrics, models, sampling
    from songrank.core.relevance import Relevance
    from songrank.core.slate import Slate
    from songrank.estimators import DocumentRanker, LabelRanker, Recommender
    from songrank.losses import (
        BPR,
        GBCE,
        KSONG,
        SONG,
        ApproxNDCG,
        GumbelApproxNDCG,
        LambdaLoss,
        LambdaRank,
        ListMLE,
        ListNet,
        ListwiseCE,
        NeuralNDCG,
        PiRank,
        PointwiseBCE,
        RankNet,
        SampledSoftmax,
        SoftmaxCE,
    )
    from songrank.sampling import SlateSampler

__version__ = "0.1.0"

__all__ = [
    "BPR",
    "GBCE",
    "KSONG",
    "SONG",
    "ApproxNDCG",
    "DocumentRanker",
    "GumbelApproxNDCG",
    "LabelRanker",
    "LambdaLoss",
    "LambdaRank",
    "ListMLE",
    "ListNet",
    "ListwiseCE",
    "NeuralNDCG",
    "PiRank",
    "PointwiseBCE",
    "RankNet",
    "Recommender",
    "Relevance",
    "SampledSoftmax",
    "Slate",
    "SlateSampler",
    "SoftmaxCE",
    "data",
    "functional",
    "losses",
    "metrics",
    "models",
    "sampling",
]


def __dir__() -> list[str]:
    """The public names, estimators included."""
    return [*__all__, "__version__"]


_ROOMS = ("data", "functional", "losses", "metrics", "models", "sampling")
_HOMES = {"Relevance": ".core.relevance", "Slate": ".core.slate", "SlateSampler": ".sampling"}
_HOMES |= dict.fromkeys(("DocumentRanker", "LabelRanker", "Recommender"), ".estimators")
__getattr__ = _lazy_names(__name__, {**dict.fromkeys(__all__, ".losses"), **_HOMES, **dict.fromkeys(_ROOMS, "")})
