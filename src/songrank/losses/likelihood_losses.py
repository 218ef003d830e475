"""Likelihood losses without memory: softmax and binary cross-entropy, ListNet, ListMLE."""

from songrank import functional
from songrank.core.options import Annotated, Number, checked
from songrank.losses.base import ListLoss, Traits
from songrank.losses.registry import register


@register("softmax")
class SoftmaxCE(ListLoss):
    """Cross-entropy of a list against its normalised labels, :func:`songrank.functional.softmax_loss`.

    >>> import torch
    >>> from songrank import Slate, SoftmaxCE
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> SoftmaxCE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.7409)
    """

    formula = staticmethod(functional.softmax_loss)
    by_column = True


@register("sampled-softmax")
class SampledSoftmax(ListLoss):
    """Softmax cross-entropy with logQ correction for samples, :func:`songrank.functional.sampled_softmax_loss`.

    The partition function estimates that of the full list. With whole lists it equals :class:`SoftmaxCE`.

    >>> import torch
    >>> from songrank import SampledSoftmax, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> SampledSoftmax()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.7409)
    """

    formula = staticmethod(functional.sampled_softmax_loss)
    by_column = True
    by_weight = True
    by_list_size = True


@register("bce")
class PointwiseBCE(ListLoss):
    """Pointwise binary cross-entropy, :func:`songrank.functional.bce_loss`.

    >>> import torch
    >>> from songrank import PointwiseBCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> PointwiseBCE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.0444)
    """

    formula = staticmethod(functional.bce_loss)


@register("gbce")
class GBCE(ListLoss):
    """Binary cross-entropy calibrated for sampled irrelevant items, :func:`songrank.functional.gbce_loss`.

    The sampling rate α is the share of the list's irrelevant items that the slate holds. The relevant items together
    have weight β, each irrelevant item has weight 1; custom sampling weights are not used.

    Args:
        t: calibration, from 0 (no correction) to 1 (probabilities as without sampling).

    >>> import torch
    >>> from songrank import GBCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> GBCE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.3151)
    """

    traits = Traits(search={"t": "weight"})
    formula = staticmethod(functional.gbce_loss)
    by_list_size = True

    @checked
    def __init__(self, t: Annotated[float, Number(0.0, 1.0)] = 0.75, *, validate: bool = False) -> None:
        super().__init__(validate=validate, t=t)


@register("listnet")
class ListNet(ListLoss):
    """Cross-entropy of the top-one probabilities, :func:`songrank.functional.listnet_loss`.

    >>> import torch
    >>> from songrank import ListNet, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ListNet()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.5623)
    """

    formula = staticmethod(functional.listnet_loss)


@register("listmle")
class ListMLE(ListLoss):
    """Plackett–Luce likelihood of the label order, :func:`songrank.functional.listmle_loss`.

    >>> import torch
    >>> from songrank import ListMLE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ListMLE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.1782)
    """

    formula = staticmethod(functional.listmle_loss)
