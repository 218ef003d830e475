"""Losses by name, for recipes and commands that hold nothing but words and numbers."""

from songrank.losses.approx_ndcg import ApproxNDCG
from songrank.losses.base import RankingLoss
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
from songrank.losses.softmax import SoftmaxCE
from songrank.losses.song import SONG

LOSSES: dict[str, type[RankingLoss]] = {
    "song": SONG,
    "k-song": KSONG,
    "faster-song": FasterSONG,
    "faster-k-song": FasterKSONG,
    "listwise-ce": ListwiseCE,
    "softmax": SoftmaxCE,
    "bce": PointwiseBCE,
    "ranknet": RankNet,
    "lambdarank": LambdaRank,
    "listnet": ListNet,
    "listmle": ListMLE,
    "approx-ndcg": ApproxNDCG,
    "gumbel-approx-ndcg": GumbelApproxNDCG,
    "neural-ndcg": NeuralNDCG,
    "pirank": PiRank,
}
"""The paper's two losses, their faster forms, their warm-up, and the baselines."""
