"""Losses of the common call ``loss(scores, slate)``, interchangeable in a loop or a recipe."""

from songrank.losses.approx_ndcg import ApproxNDCG
from songrank.losses.base import ListLoss, MemoryLoss, RankingLoss, Rows
from songrank.losses.bce import PointwiseBCE
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG
from songrank.losses.gumbel_approx_ndcg import GumbelApproxNDCG
from songrank.losses.ksong import KSONG
from songrank.losses.lambdarank import LambdaRank
from songrank.losses.listmle import ListMLE
from songrank.losses.listnet import ListNet
from songrank.losses.listwise_ce import ListwiseCE
from songrank.losses.neural_ndcg import NeuralNDCG
from songrank.losses.pirank import PiRank
from songrank.losses.ranknet import RankNet
from songrank.losses.schedules import Schedule
from songrank.losses.softmax import SoftmaxCE
from songrank.losses.song import SONG

__all__ = [
    "KSONG",
    "SONG",
    "ApproxNDCG",
    "FasterKSONG",
    "FasterSONG",
    "GumbelApproxNDCG",
    "LambdaRank",
    "ListLoss",
    "ListMLE",
    "ListNet",
    "ListwiseCE",
    "MemoryLoss",
    "NeuralNDCG",
    "PiRank",
    "PointwiseBCE",
    "RankNet",
    "RankingLoss",
    "Rows",
    "Schedule",
    "SoftmaxCE",
]
