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

from songrank import data, functional, losses, memory, metrics, models, sampling
from songrank.losses import (
    KSONG,
    SONG,
    ApproxNDCG,
    GumbelApproxNDCG,
    LambdaRank,
    ListMLE,
    ListNet,
    ListwiseCE,
    NeuralNDCG,
    PiRank,
    PointwiseBCE,
    RankNet,
    SoftmaxCE,
)
from songrank.relevance import Relevance
from songrank.sampling import SlateSampler
from songrank.slate import Slate

__version__ = "0.1.0.dev0"

__all__ = [
    "KSONG",
    "SONG",
    "ApproxNDCG",
    "GumbelApproxNDCG",
    "LambdaRank",
    "ListMLE",
    "ListNet",
    "ListwiseCE",
    "NeuralNDCG",
    "PiRank",
    "PointwiseBCE",
    "RankNet",
    "Relevance",
    "Slate",
    "SlateSampler",
    "SoftmaxCE",
    "data",
    "functional",
    "losses",
    "memory",
    "metrics",
    "models",
    "sampling",
]
