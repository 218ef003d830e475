"""NeuralNDCG: NDCG with a soft, doubly stochastic sort."""

from songrank.core.options import Annotated, Whole, checked
from songrank.functional import neural_ndcg_loss
from songrank.losses.base import Count, ListLoss, Positive
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("neural-ndcg")
class NeuralNDCG(ListLoss):
    """:func:`songrank.functional.neural_ndcg_loss` of a slate's labels, through the common call.

    Args:
        temperature: τ of the soft sort.
        k: positions that count; all if None.
        sinkhorn_iterations: rounds of normalisation.
        validate: check the values of every slate.

    >>> import torch
    >>> from songrank import NeuralNDCG, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> NeuralNDCG()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.7152)

    """

    traits = Traits(gains=True, cost="O(L²)", search={"temperature": "scale"})
    formula = staticmethod(neural_ndcg_loss)

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
