"""BSL: bilateral softmax loss (Wu et al., ICDE 2024)."""

from typing import Literal

import torch

from songrank.core.options import checked
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import Gamma, Positive, Traits
from songrank.losses.outer import Likelihood
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.smooth_rank import SmoothRankLoss


@register("bsl")
class BSL(SmoothRankLoss):
    r"""Bilateral softmax loss: separate temperatures for relevant items and for their irrelevant rivals.

        mean_q mean_i (τ₂/τ₁) ln Σ_{j irrelevant} exp((h_j − h_i)/τ₂)

    This is −h_i/τ₁ + (τ₂/τ₁) ln Σ_j exp(h_j/τ₂) (*BSL: Understanding and Improving Softmax Loss for Recommendation*).
    With τ₁ = τ₂ it is the listwise cross-entropy against irrelevant items only. Lists without an irrelevant item have
    the value 0. The cost is O(L). Other options are those of :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair``; 0 with γ = 1.
        gamma: γ; 1, as published, estimates the sum from the slate alone.
        temperature: τ₂, of the rivals.
        relevant_temperature: τ₁, of relevant items; τ₂ by default.

    >>> from songrank import Slate
    >>> from songrank.losses import BSL
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]))
    >>> BSL(num_pairs=0)(torch.zeros(1, 3), slate)                             # ln 2
    tensor(0.6931)
    """

    traits = Traits(
        memory=True,
        objective="estimated scaled −ln likelihood of a relevant item among irrelevant ones",
        unit="nats",
        search={"temperature": "scale"},
    )
    by_pair = ("log_u",)
    switches = ("estimator",)
    rivals = "irrelevant"

    @checked
    def __init__(
        self,
        num_pairs: int = 0,
        gamma: Gamma = 1.0,
        *,
        temperature: Positive = 0.1,
        relevant_temperature: Positive | None = None,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        factor = 1.0 if relevant_temperature is None else temperature / relevant_temperature
        inner = Surrogate("exponential", temperature=temperature)
        super().__init__(inner, Likelihood(factor), num_pairs, gamma, form, pair_range, dtype, validate)
