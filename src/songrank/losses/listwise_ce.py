"""SOLC: stochastic optimisation of the listwise cross-entropy, the paper's warm-up (Algorithm 3)."""

from typing import Literal

import torch

from songrank.core.options import checked
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import Gamma, Positive, Traits
from songrank.losses.outer import Likelihood
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.smooth_rank import SmoothRankLoss


@register("listwise-ce")
class ListwiseCE(SmoothRankLoss):
    r"""Listwise cross-entropy over the full list, with one float in memory per relevant pair, in log space.

    With u_i the mean of exp((h_j − h_i)/τ) over the list, the objective is mean_q mean_i ln(N u_i), and

        ĝ_i = estimate of mean_j exp((h_j − h_i)/τ) from the slate,   log u_i ← log((1 − γ) u_i + γ ĝ_i)
        G   = mean over queries, mean over sampled i, of ∇ĝ_i / u_i

    The gradient has the factor exp(h_j − h_i) that Algorithm 3 drops. The cost is O(B·L): the sums over j of different
    i differ only in i's own term. Queries do not interact. Only ``form.estimator`` applies. Other options are those of
    :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair`` (0 … num_pairs − 1): ``relevance.num_pairs``, or 0 for
            whole lists with γ = 1.
        temperature: τ of the softmax, in units of the scores; 1 in the paper.

    >>> from songrank import ListwiseCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1]]))
    >>> ListwiseCE(num_pairs=1)(torch.zeros(1, 2), slate)                      # ln 2
    tensor(0.6931)
    """

    traits = Traits(
        memory=True,
        objective="estimated −ln likelihood of a relevant item",
        unit="nats",
        search={"gamma": "weight", "temperature": "scale"},
    )
    by_pair = ("log_u",)
    switches = ("estimator",)

    @checked
    def __init__(
        self,
        num_pairs: int,
        gamma: Gamma = 0.1,
        *,
        temperature: Positive = 1.0,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        inner = Surrogate("exponential", temperature=temperature)
        super().__init__(inner, Likelihood(), num_pairs, gamma, form, pair_range, dtype, validate)
