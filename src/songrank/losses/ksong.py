"""K-SONG: stochastic optimisation of top-K NDCG (Algorithm 2 of the paper)."""

from dataclasses import replace
from typing import Literal

import torch

from songrank.core.options import Annotated, Choice, checked
from songrank.functional.selection import SELECTORS
from songrank.losses.base import Count, Gamma, NotNegative, Positive, SurrogateName
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.song import SONG
from songrank.losses.top_k import MODES, THRESHOLD, ThresholdOptions, TopK


@register("k-song")
class KSONG(TopK, SONG):
    r"""Top-K NDCG as a loss: Algorithm 2, with u per relevant pair, a threshold λ and a curvature s per query.

    λ_q tracks the (K+1)-th largest score of the query's full list, the minimiser of L_q (``functional.threshold``):

        F_K = mean_q Σ_i ψ(h_i − λ_q) f(u_i),     f with Z_q^K
        G   = Σ_i ψ f′(u_i) ∇ĝ_i  +  ψ′ f(u_i) (∇h_i − ∇λ_q),      ∇λ_q = Σ_j w_j φ″(h_j − λ_q) ∇h_j / H_q      (eq. 5)

    ``mode="practical"`` omits the second term (eq. 6): ψ is a weight without gradient. A step uses the stored λ, at a
    query's first visit the weighted (K+1)-th largest score of the slate; H = ∇²_λ L on the slate; s ← H at the first
    visit, else (1 − γ′)s + γ′H; then λ is updated (``threshold.source`` has alternatives). Where K ≥ N_q, ψ = 1 and λ
    is constant. ∇λ is divided by H, not by s (``form.implicit``): a stale s makes G move all scores of a query
    together, which degrades rankings (docs/experiments/defaults.md).

    Other options are those of :class:`SONG` and :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair`` (0 … num_pairs − 1), usually ``relevance.num_pairs``.
        num_queries: upper bound of the ids in ``slate.query`` (0 … num_queries − 1), ``relevance.num_queries``.
        k: K; slates must have the same k.
        mode: ``"theoretical"`` (eq. 5) or ``"practical"`` (eq. 6); by default practical for surrogates with a
            temperature, for which the gradient through ψ is unstable, otherwise theoretical.
        selector: ψ: ``"sigmoid"`` or ``"smooth_step"`` (``functional.selection``).
        selector_scale: α of ψ.
        threshold: :class:`ThresholdOptions`.

    >>> from songrank import KSONG, Relevance, SlateSampler
    >>> relevance = Relevance.from_pairs(query=[0, 0, 1], item=[2, 5, 3], num_items=8)
    >>> model = torch.nn.Embedding(relevance.num_queries, relevance.num_items)
    >>> optimiser = torch.optim.Adam(model.parameters())
    >>> loss = KSONG(relevance.num_pairs, relevance.num_queries, k=2)
    >>> for slate in SlateSampler(relevance, queries_per_batch=2, relevant=2, irrelevant=3, k=2):
    ...     optimiser.zero_grad()
    ...     loss(model(slate.query).gather(1, slate.item), slate).backward()
    ...     optimiser.step()
    >>> loss.threshold.read().isfinite()
    tensor([True, True])
    """

    traits = replace(
        SONG.traits, objective="estimated top-K NDCG of the slates", search={**SONG.traits.search, "k": "cutoff"}
    )
    by_query: tuple[str, ...] = ("threshold", "curvature", "centre")
    switches: tuple[str, ...] = (*SONG.switches, "selection", "implicit", "threshold_step", "centre", "smoothing")

    @checked
    def __init__(
        self,
        num_pairs: int,
        num_queries: int,
        k: Count,
        gamma: Gamma = 0.1,
        mode: Annotated[str, Choice(MODES)] | None = None,
        rank_offset: NotNegative | None = None,
        *,
        surrogate: SurrogateName = "squared_hinge",
        margin: float = 1.0,
        temperature: Positive = 1.0,
        selector: Annotated[str, Choice(SELECTORS)] = "sigmoid",
        selector_scale: Positive = 2.0,
        threshold: ThresholdOptions = THRESHOLD,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        query_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        SONG.__init__(
            self,
            num_pairs,
            gamma,
            surrogate,
            margin,
            rank_offset,
            temperature=temperature,
            form=form,
            pair_range=pair_range,
            dtype=dtype,
            validate=validate,
        )
        mode = mode or ("practical" if self.surrogate.in_logs else "theoretical")
        self._set_up_selector(k, mode, selector, selector_scale, threshold, num_queries, query_range, dtype)
