"""SL@K: top-K softmax loss (Yang et al., KDD 2025)."""

from typing import Literal

import torch

from songrank.core.options import Annotated, Choice, checked
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import Count, Gamma, Positive, Traits
from songrank.losses.outer import Likelihood
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.top_k import MODES, ThresholdOptions, TopK

PERIODIC = ThresholdOptions(source="periodic")


@register("sl-at-k")
class SLatK(TopK):
    r"""Top-K softmax loss: the listwise cross-entropy, with relevant items weighted by whether they are in the top K.

        mean_q mean_i σ((h_i − β_q)/τ_w) ln Σ_j exp((h_j − h_i)/τ)

    β_q is the (K+1)-th largest score of the query's full list, as in :class:`KSONG` (the K-th as published). By default
    it is estimated from the slate at every fifth visit; ``threshold=ThresholdOptions(source="tracked")`` tracks it by
    the threshold problem. The weight has no gradient; with ``mode="theoretical"`` it has, through β_q too (*Breaking
    the Top-K Barrier: Advancing Top-K Ranking Metrics Optimization in Recommender Systems*). The cost is O(L). Other
    options are those of :class:`KSONG` and :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair``; 0 with γ = 1.
        num_queries: upper bound of the ids in ``slate.query`` (0 … num_queries − 1), ``relevance.num_queries``.
        k: K, 20 as in most published figures.
        gamma: γ; 1, as published, estimates the sum from the slate alone.
        temperature: τ, in units of the scores.
        weight_temperature: τ_w, in units of the scores.
        mode: ``"practical"``, weights without gradient, or ``"theoretical"``.
        threshold: :class:`ThresholdOptions`.

    >>> from songrank import Slate
    >>> from songrank.losses import SLatK
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]))
    >>> SLatK(num_pairs=0, num_queries=1, k=1)(torch.zeros(1, 3), slate)       # σ(0) ln 3
    tensor(0.5493)
    """

    traits = Traits(
        memory=True,
        objective="estimated −ln likelihood of a relevant item, weighted by its selection",
        unit="nats",
        search={"temperature": "scale", "weight_temperature": "scale", "k": "cutoff"},
    )
    by_pair = ("log_u",)
    by_query: tuple[str, ...] = ("threshold", "curvature", "centre")
    switches = ("estimator", "selection", "implicit", "threshold_step", "centre", "smoothing")

    @checked
    def __init__(
        self,
        num_pairs: int,
        num_queries: int,
        k: Count = 20,
        gamma: Gamma = 1.0,
        *,
        temperature: Positive = 0.1,
        weight_temperature: Positive = 1.0,
        mode: Annotated[str, Choice(MODES)] = "practical",
        threshold: ThresholdOptions = PERIODIC,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        query_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        inner = Surrogate("exponential", temperature=temperature)
        super().__init__(inner, Likelihood(), num_pairs, gamma, form, pair_range, dtype, validate)
        scale = 1.0 / weight_temperature
        self._set_up_selector(k, mode, "sigmoid", scale, threshold, num_queries, query_range, dtype)
