"""PSL: pairwise softmax loss (Yang et al., NeurIPS 2024)."""

from typing import Literal

import torch

from songrank.core.options import Annotated, Choice, checked
from songrank.functional.surrogates import POWERS, Surrogate
from songrank.losses.base import Gamma, Positive, Traits
from songrank.losses.outer import Likelihood
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.smooth_rank import SmoothRankLoss


@register("psl")
class PSL(SmoothRankLoss):
    r"""Pairwise softmax loss: the listwise cross-entropy with another activation in place of exp.

        mean_q mean_i ln Σ_j a(h_j − h_i)^{1/τ},      a(x) = 1 + tanh x, max(0, 1 + arctan x) or max(0, 1 + x)

    All are close to eˣ near 0 and grow less for large x, so rivals far above an item, which may be relevant but
    unlabelled, count less. The scores should lie within about ±1, such as cosines or halves of them (*PSL: Rethinking
    and Improving Softmax Loss from Pairwise Perspective for Recommendation*). The cost is O(P·L). Other options are
    those of :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair``; 0 with γ = 1.
        gamma: γ; 1, as published, estimates the sum from the slate alone.
        temperature: τ.
        activation: a: ``"tanh"``, ``"atan"`` or ``"relu"``.

    >>> from songrank import Slate
    >>> from songrank.losses import PSL
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    >>> PSL(num_pairs=0)(torch.zeros(1, 2), slate)                             # ln 2
    tensor(0.6931)
    """

    traits = Traits(
        memory=True,
        cost="O(P·L)",
        objective="estimated ln of the summed activations of a relevant item's rivals",
        unit="nats",
        search={"temperature": "scale"},
    )
    by_pair = ("log_u",)
    switches = ("estimator",)

    @checked
    def __init__(
        self,
        num_pairs: int = 0,
        gamma: Gamma = 1.0,
        *,
        temperature: Positive = 0.1,
        activation: Annotated[str, Choice(POWERS)] = "tanh",
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        inner = Surrogate(activation, temperature=temperature)
        super().__init__(inner, Likelihood(), num_pairs, gamma, form, pair_range, dtype, validate)
