"""Ranking losses with one signature, ``loss(scores, slate)``, for your own loop or a recipe.

Importing a module registers its losses; the import order is the order in lists and messages.
"""

# isort: off
from songrank.losses.song import SONG as SONG
from songrank.losses.ksong import KSONG as KSONG
from songrank.losses.faster_song import FasterSONG as FasterSONG
from songrank.losses.faster_ksong import FasterKSONG as FasterKSONG
from songrank.losses.listwise_ce import ListwiseCE as ListwiseCE
from songrank.losses.sl_at_k import SLatK as SLatK
from songrank.losses.psl import PSL as PSL
from songrank.losses.bsl import BSL as BSL
from songrank.losses.likelihood_losses import SoftmaxCE as SoftmaxCE
from songrank.losses.likelihood_losses import SampledSoftmax as SampledSoftmax
from songrank.losses.likelihood_losses import PointwiseBCE as PointwiseBCE
from songrank.losses.likelihood_losses import GBCE as GBCE
from songrank.losses.likelihood_losses import ListNet as ListNet
from songrank.losses.likelihood_losses import ListMLE as ListMLE
from songrank.losses.pairwise_losses import RankNet as RankNet
from songrank.losses.pairwise_losses import BPR as BPR
from songrank.losses.pairwise_losses import LambdaRank as LambdaRank
from songrank.losses.pairwise_losses import LambdaLoss as LambdaLoss
from songrank.losses.smooth_ndcg_losses import ApproxNDCG as ApproxNDCG
from songrank.losses.smooth_ndcg_losses import GumbelApproxNDCG as GumbelApproxNDCG
from songrank.losses.smooth_ndcg_losses import NeuralNDCG as NeuralNDCG
from songrank.losses.smooth_ndcg_losses import PiRank as PiRank

# isort: on
from songrank.losses.base import ListLoss as ListLoss
from songrank.losses.base import MemoryLoss as MemoryLoss
from songrank.losses.base import RankingLoss as RankingLoss
from songrank.losses.base import Rows as Rows
from songrank.losses.paper_form import FasterForm as FasterForm
from songrank.losses.paper_form import PaperForm as PaperForm
from songrank.losses.registry import LOSSES
from songrank.losses.schedules import Schedule as Schedule
from songrank.losses.top_k import ThresholdOptions as ThresholdOptions

__all__ = ["FasterForm", "ListLoss", "MemoryLoss", "PaperForm", "RankingLoss", "Rows", "Schedule", "ThresholdOptions"]
__all__ += [kind.__name__ for kind in LOSSES.values()]
