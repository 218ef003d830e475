"""Pure functions of tensors: the formulas of the paper and of the losses it is compared with.

All list losses have the signature ``fn(scores, labels, *, mask=None, reduction="mean", …)``.

Args:
    scores: [..., L].
    labels: [..., L], at least 0; an item is relevant if its label is above 0.
    mask: [..., L] bool, False for padding.
    reduction: ``"mean"`` over non-empty lists, ``"sum"`` or ``"none"``.
    column: [..., P], columns of all relevant items of a list, −1 to ignore. It saves time and does not change values.
    weight: [..., L], custom sampling weights of the columns, which sum to 1 over a list; None for uniform samples.
    list_size: [...], number of items of the full list, of which a list is a sample; by default the list itself.
    num_relevant: [...], number of relevant items of the full list; by default those of the list.
    gain: gain of a label: ``"exp2"`` for 2^y − 1, ``"linear"`` or a function of the labels.

Other options are described on the loss classes, for example :class:`songrank.LambdaRank`.

>>> import torch
>>> from songrank import functional as F
>>> scores = torch.tensor([[2.0, 1.0, 0.0]], requires_grad=True)
>>> labels = torch.tensor([[0.0, 1.0, 0.0]])
>>> F.softmax_loss(scores, labels)                                                    # plain
tensor(1.4076, grad_fn=<DivBackward0>)
>>> F.softmax_loss(scores, labels, mask=torch.tensor([[True, True, False]]))          # masked
tensor(1.3133, grad_fn=<DivBackward0>)
>>> torch.autograd.grad(F.ranknet_loss(scores, labels), scores)[0].shape              # differentiated
torch.Size([1, 3])
"""

from songrank.core.gains import Gain, dcg, discounts, gains, ideal_dcg
from songrank.functional.approx_ndcg import approx_ndcg_loss, gumbel_approx_ndcg_loss
from songrank.functional.listwise import bce_loss, listmle_loss, listnet_loss, softmax_loss
from songrank.functional.ndcg import default_rank_offset, ndcg_term, ndcg_term_slope
from songrank.functional.neural_sort import neural_ndcg_loss, neural_sort, pirank_loss
from songrank.functional.pairwise import bpr_loss, lambda_loss, lambdarank_loss, ranknet_loss
from songrank.functional.ranks import ranks, smooth_ranks
from songrank.functional.sampled import gbce_loss, sampled_softmax_loss
from songrank.functional.selection import select, sigmoid_selector, smooth_step
from songrank.functional.strata import list_weights, rival_weights
from songrank.functional.surrogates import Surrogate, logistic, sigmoid, smooth_hinge, squared_hinge
from songrank.functional.threshold import ThresholdProblem, exact_threshold, smooth_threshold, weighted_threshold

__all__ = ["Gain", "Surrogate", "ThresholdProblem", "approx_ndcg_loss", "bce_loss", "bpr_loss", "dcg"]
__all__ += ["default_rank_offset", "discounts", "exact_threshold", "gains", "gbce_loss", "gumbel_approx_ndcg_loss"]
__all__ += ["ideal_dcg", "lambda_loss", "lambdarank_loss", "list_weights", "listmle_loss", "listnet_loss", "logistic"]
__all__ += ["ndcg_term", "ndcg_term_slope", "neural_ndcg_loss", "neural_sort", "pirank_loss", "ranknet_loss", "ranks"]
__all__ += ["rival_weights", "sampled_softmax_loss", "select", "sigmoid", "sigmoid_selector", "smooth_hinge"]
__all__ += ["smooth_ranks", "smooth_step", "smooth_threshold", "softmax_loss", "squared_hinge", "weighted_threshold"]
