"""Smooth forms of NDCG without memory: ApproxNDCG, NeuralNDCG, PiRank."""

from typing import Any

import torch

from songrank import functional
from songrank.core.hashing import random_bits, random_uniform
from songrank.core.options import Annotated, Whole, checked
from songrank.core.slate import Slate
from songrank.functional.approx_ndcg import gumbel
from songrank.losses.base import Count, ListLoss, NotNegative, Positive, RandomListLoss, Traits
from songrank.losses.registry import register


@register("approx-ndcg")
class ApproxNDCG(ListLoss):
    """NDCG with a smooth rank, :func:`songrank.functional.approx_ndcg_loss`.

    Args:
        temperature: T of the sigmoid that smooths ranks; lower is closer to the rank and less smooth.

    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ApproxNDCG()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.6699)
    """

    traits = Traits(gains=True, cost="O(P·L)", search={"temperature": "scale"})
    formula = staticmethod(functional.approx_ndcg_loss)
    by_column = True

    @checked
    def __init__(self, temperature: Positive = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate, temperature=temperature)


@register("gumbel-approx-ndcg")
class GumbelApproxNDCG(RandomListLoss):
    """ApproxNDCG averaged over noisy scores, :func:`songrank.functional.gumbel_approx_ndcg_loss`.

    The noise of an item depends only on (``seed``, step, query, item), not on padding, column order, batch or device.
    The step is counted in a buffer, so a resumed run continues the sequence.

    Args:
        temperature: T of the sigmoid that smooths ranks.
        samples: number of noisy copies of the scores.
        scale: factor β of the Gumbel noise.
        seed: seed of the noise.

    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> GumbelApproxNDCG()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.7012)
    """

    traits = ApproxNDCG.traits
    formula = staticmethod(functional.gumbel_approx_ndcg_loss)
    by_column = True

    @checked
    def __init__(
        self,
        temperature: Positive = 1.0,
        samples: Count = 8,
        scale: NotNegative = 1.0,
        seed: int = 0,
        *,
        validate: bool = False,
    ) -> None:
        super().__init__(seed, validate=validate, temperature=temperature, samples=samples, scale=scale)

    def _arguments(self, slate: Slate) -> dict[str, Any]:
        of_item = random_bits(self._bits_of_queries(slate), slate.item.expand(slate.label.shape))
        sample = torch.arange(self.options["samples"], device=of_item.device).view(-1, 1, 1)
        return {**super()._arguments(slate), "noise": gumbel(random_uniform(of_item.unsqueeze(0), sample))}


@register("neural-ndcg")
class NeuralNDCG(ListLoss):
    """NDCG with a soft, doubly stochastic sort, :func:`songrank.functional.neural_ndcg_loss`.

    Args:
        temperature: τ of the soft sort.
        k: cutoff of NDCG@k; None for the whole list.
        sinkhorn_iterations: number of Sinkhorn iterations.

    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> NeuralNDCG()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.7152)
    """

    traits = Traits(gains=True, cost="O(L²)", search={"temperature": "scale"})
    formula = staticmethod(functional.neural_ndcg_loss)

    @checked
    def __init__(
        self,
        temperature: Positive = 1.0,
        k: Count | None = None,
        sinkhorn_iterations: Annotated[int, Whole(0)] = 30,
        *,
        validate: bool = False,
    ) -> None:
        super().__init__(validate=validate, k=k, temperature=temperature, sinkhorn_iterations=sinkhorn_iterations)


@register("pirank")
class PiRank(ListLoss):
    """NDCG with a soft sort, :func:`songrank.functional.pirank_loss`.

    Args:
        temperature: τ of the soft sort.
        k: cutoff of NDCG@k; None for the whole list.

    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> PiRank()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.7690)
    """

    traits = NeuralNDCG.traits
    formula = staticmethod(functional.pirank_loss)

    @checked
    def __init__(self, temperature: Positive = 1.0, k: Count | None = None, *, validate: bool = False) -> None:
        super().__init__(validate=validate, k=k, temperature=temperature)
