"""SONG: stochastic optimisation of NDCG (Algorithm 1 of the paper)."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from songrank.core.options import checked
from songrank.core.slate import Slate
from songrank.functional.surrogates import LOG_SURROGATES, Surrogate
from songrank.losses.base import Gamma, NotNegative, Positive, SurrogateName, Traits
from songrank.losses.outer import NDCG
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.smooth_rank import SmoothRankLoss


@register("song")
class SONG(SmoothRankLoss):
    r"""NDCG as a loss: Algorithm 1, with one float u in memory per relevant pair.

    With ĝ_i the slate's unbiased estimate of the smooth rank g_i / N of relevant item i (``functional.strata``):

        u_i  ← ĝ_i at the first visit, else (1 − γ) u_i + γ ĝ_i
        f(g) = (1 − 2^y) / (Z_q log₂(N g + 1 + o))
        G    = mean over queries of N_q⁺ · mean over sampled i of f′(u_i) ∇ĝ_i

    The value estimates F(w) = mean_q Σ_i f(u_i), which decreases from 0 towards −1 (with o = 0) as the ranking
    improves; its autograd gradient is G. With full lists and γ = 1 both are exact.

    ``surrogate="exponential"``, ℓ(x) = exp(x/τ), suits bounded scores such as cosines, and scores that spread out: the
    smooth rank counts the strongest rivals, while that of the squared hinge is dominated by many weak ones. It is
    computed in log space, with ln u in memory, for scores of any size, at a cost of O(L) per list instead of O(P·L).

    Other options are those of :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair`` (0 … num_pairs − 1): ``relevance.num_pairs``, or 0 for
            whole lists with γ = 1.
        surrogate: name of ℓ (``functional.surrogates``).
        margin: c of the hinge surrogates.
        temperature: τ of the exponential surrogate and of the powers of PSL, in units of the scores.
        rank_offset: o ≥ 0; ``None`` for √N of each list (0 with ``form="paper"``); 0 is the paper's objective.

    >>> from songrank import SONG, Slate
    >>> labels = torch.tensor([[1.0, 0.0, 0.0]])
    >>> slate = Slate.from_batch(labels, query=torch.tensor([0]), pair=torch.tensor([[0, -1, -1]]))
    >>> scores = torch.tensor([[0.0, 1.0, -3.0]], requires_grad=True)
    >>> loss = SONG(num_pairs=1, rank_offset=0.0)
    >>> loss(scores, slate).backward()
    >>> scores.grad[0, 0] < 0 < scores.grad[0, 1]                  # relevant item up, its rival down
    tensor(True)
    >>> loss.u.read()                                              # (ℓ(0) + ℓ(1) + ℓ(−3)) / 3
    tensor([1.6667])
    """

    traits = Traits(
        memory=True,
        gains=True,
        cost="O(P·L)",
        objective="estimated NDCG of the slates",
        unit="NDCG",
        search={"gamma": "weight", "margin": "scale", "temperature": "scale", "rank_offset": "offset"},
    )
    by_pair = ("u",)
    switches: tuple[str, ...] = ("lagged", "estimator", "offset")
    outer: NDCG

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise for an invalid surrogate, margin, temperature or form."""
        Surrogate(options["surrogate"], options["margin"], options["temperature"])
        super().check_together(options)

    @classmethod
    def searched(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """All but the margin, or all but the temperature."""
        unused = "margin" if options["surrogate"] in LOG_SURROGATES else "temperature"
        return {name: kind for name, kind in cls.traits.search.items() if name != unused}

    @checked
    def __init__(
        self,
        num_pairs: int,
        gamma: Gamma = 0.1,
        surrogate: SurrogateName = "squared_hinge",
        margin: float = 1.0,
        rank_offset: NotNegative | None = None,
        *,
        temperature: Positive = 1.0,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        form = self.form_kind.read(form, self.switches)
        outer = NDCG(0.0 if rank_offset is None and form.offset == "zero" else rank_offset)
        inner = Surrogate(surrogate, margin, temperature)
        super().__init__(inner, outer, num_pairs, gamma, form, pair_range, dtype, validate)

    @property
    def rank_offset(self) -> float | None:
        """O; None for √N of each list."""
        return self.outer.rank_offset

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless scores, slate and k match."""
        super().check(scores, slate)
        if slate.k != self.k:
            self._wrong_k(slate)
