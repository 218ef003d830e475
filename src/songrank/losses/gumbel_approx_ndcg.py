"""Gumbel-ApproxNDCG: ApproxNDCG averaged over noisy scores."""

from typing import Any

import torch
from torch import Tensor

from songrank.core.hashing import derive_key, random_bits, random_uniform
from songrank.core.options import checked
from songrank.core.slate import Slate
from songrank.functional.approx_ndcg import gumbel, gumbel_approx_ndcg_loss
from songrank.losses.base import Count, ListLoss, NotNegative, Positive
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("gumbel-approx-ndcg")
class GumbelApproxNDCG(ListLoss):
    """:func:`songrank.functional.gumbel_approx_ndcg_loss` of a slate's labels, through the common call.

    The noise of an item depends on (seed, step, query, item) alone, the step counted in a buffer: padding, the order of
    columns, the batch around a query and the device change nothing, and a resumed run goes on where it stopped.

    Args:
        temperature: T of the smooth rank.
        samples: draws of noise a step.
        scale: β, the size of the noise.
        seed: of the noise.
        validate: check the values of every slate.

    >>> from songrank import GumbelApproxNDCG, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> GumbelApproxNDCG()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.7012)

    """

    traits = Traits(gains=True, cost="O(P·L)", search={"temperature": "scale"})
    formula = staticmethod(gumbel_approx_ndcg_loss)
    by_column = True
    steps: Tensor

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
        super().__init__(validate=validate, temperature=temperature, samples=samples, scale=scale)
        self.key = derive_key(seed)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """Weighted mean over the slate's queries; in training mode the next step has new noise."""
        value = super().forward(scores, slate)
        if self.training:
            self.steps.add_(1)
        return value

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss itself, on this step's noise."""
        return super().forward(scores, slate)

    def _arguments(self, slate: Slate) -> dict[str, Any]:
        return {**super()._arguments(slate), "noise": self._noise(slate)}

    def _noise(self, slate: Slate) -> Tensor:
        of_query = random_bits(random_bits(self.key, self.steps), slate.query)
        of_item = random_bits(of_query.unsqueeze(1), slate.item.expand(slate.label.shape))
        sample = torch.arange(self.options["samples"], device=of_item.device).view(-1, 1, 1)
        return gumbel(random_uniform(of_item.unsqueeze(0), sample))
