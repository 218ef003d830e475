"""Losses over pairs of items without memory: RankNet, BPR, LambdaRank, LambdaLoss."""

from songrank import functional
from songrank.core.options import checked
from songrank.losses.base import Count, ListLoss, NotNegative, Positive, Traits
from songrank.losses.registry import register


@register("ranknet")
class RankNet(ListLoss):
    """Cross-entropy over pairs of items, :func:`songrank.functional.ranknet_loss`.

    Args:
        sigma: steepness σ of the logistic function.

    >>> import torch
    >>> from songrank import RankNet, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> RankNet()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.2512)
    """

    traits = Traits(cost="O(P·L)", search={"sigma": "scale"})
    formula = staticmethod(functional.ranknet_loss)
    by_column = True

    @checked
    def __init__(self, sigma: Positive = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate, sigma=sigma)


@register("bpr")
class BPR(ListLoss):
    """Cross-entropy over pairs of a relevant and an irrelevant item, :func:`songrank.functional.bpr_loss`.

    On a sampled slate it estimates the mean over all such pairs of the full list.

    Args:
        sigma: steepness σ of the logistic function, 1 / temperature.

    >>> import torch
    >>> from songrank import BPR, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> BPR()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.7201)
    """

    traits = Traits(cost="O(P·L)", search={"sigma": "scale"})
    formula = staticmethod(functional.bpr_loss)
    by_column = True
    by_weight = True

    @checked
    def __init__(self, sigma: Positive = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate, sigma=sigma)


@register("lambdarank")
class LambdaRank(ListLoss):
    """RankNet with pairs weighted by |ΔNDCG|, :func:`songrank.functional.lambdarank_loss`.

    Args:
        sigma: steepness σ of the logistic function.
        k: cutoff of NDCG@k; None for the whole list.

    >>> import torch
    >>> from songrank import LambdaRank, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> LambdaRank()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(0.7159)
    """

    traits = Traits(gains=True, cost="O(P·L)", search={"sigma": "scale"})
    formula = staticmethod(functional.lambdarank_loss)
    by_column = True

    @checked
    def __init__(self, sigma: Positive = 1.0, k: Count | None = None, *, validate: bool = False) -> None:
        super().__init__(validate=validate, k=k, sigma=sigma)


@register("lambdaloss")
class LambdaLoss(ListLoss):
    """NDCG-Loss2++, or LambdaLoss@K with ``k``: RankNet with two weights, :func:`songrank.functional.lambda_loss`.

    Args:
        sigma: steepness σ of the logistic function.
        mu: weight μ of the part that bounds NDCG; 0 is :class:`LambdaRank`.
        k: cutoff of NDCG@k; None for the whole list.

    >>> import torch
    >>> from songrank import LambdaLoss, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> LambdaLoss()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(6.1244)
    """

    traits = Traits(gains=True, cost="O(P·L)", search={"sigma": "scale"})
    formula = staticmethod(functional.lambda_loss)
    by_column = True

    @checked
    def __init__(
        self, sigma: Positive = 1.0, mu: NotNegative = 10.0, k: Count | None = None, *, validate: bool = False
    ) -> None:
        super().__init__(validate=validate, k=k, sigma=sigma, mu=mu)
