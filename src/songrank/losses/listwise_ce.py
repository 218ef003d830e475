"""SOLC: stochastic optimisation of the listwise cross-entropy, the paper's warm-up (Algorithm 3)."""

from typing import Literal

import torch
from torch import Tensor

from songrank.core.options import checked
from songrank.core.slate import Slate
from songrank.functional.strata import rival_weights, slate_lists
from songrank.losses.base import Gamma, MemoryLoss, Rows, Traits, attach_gradient, present_scores, row_shares
from songrank.losses.memory import MemoryTable, log_moving_average
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register


@register("listwise-ce")
class ListwiseCE(MemoryLoss):
    r"""Listwise cross-entropy over the full list, with one float in memory per relevant pair, in log space.

    With u_i the mean of exp(h_j − h_i) over the list, the objective is mean_q mean_i ln(N u_i), and

        ĝ_i = estimate of mean_j exp(h_j − h_i) from the slate,   log u_i ← log((1 − γ) u_i + γ ĝ_i)
        G   = mean over queries, mean over sampled i, of ∇ĝ_i / u_i

    The gradient has the factor exp(h_j − h_i) that Algorithm 3 drops. The cost is O(B·L): the sums over j of different
    i differ only in i's own term. Queries do not interact. Only ``form.estimator`` applies. All options are those of
    :class:`MemoryLoss`.

    >>> from songrank import ListwiseCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1]]))
    >>> ListwiseCE(num_pairs=1)(torch.zeros(1, 2), slate)                      # ln 2
    tensor(0.6931)
    """

    traits = Traits(
        memory=True, objective="estimated −ln likelihood of a relevant item", unit="nats", search={"gamma": "weight"}
    )
    by_pair = ("log_u",)
    switches = ("estimator",)

    @checked
    def __init__(
        self,
        num_pairs: int,
        gamma: Gamma = 0.1,
        *,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        super().__init__(gamma, PaperForm.read(form, self.switches), validate=validate)
        self.log_u = MemoryTable(num_pairs, pair_range, dtype=dtype, name="pairs")

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure function: the loss and the new log u of this slate's pairs."""
        h = present_scores(scores, slate, self._working_type(scores))
        with torch.no_grad():
            value, gradient, new = self._evaluate(h.detach(), slate, rows["log_u"].to(h.dtype))
        return attach_gradient(value, h, gradient), {"log_u": new}

    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """Estimated negative log-likelihood of a relevant item, mean_i ln(N u_i)."""
        return self._evaluate(h, slate, rows["log_u"].to(h.dtype))[0]

    def _evaluate(self, h: Tensor, slate: Slate, old: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lists = slate_lists(slate, h.dtype)
        weight, own = rival_weights(**lists, estimator=self.form.estimator)
        mask = slate.mask.expand(h.shape)
        top = torch.where(mask, h, -torch.inf).amax(-1, keepdim=True)
        top = torch.where(slate.rows_present.unsqueeze(1), top, 0.0)
        mass = weight * torch.exp((h - top).clamp_max(0.0))  # only padding can lie above the top
        active = slate.active
        relevant = torch.where(active, h.gather(1, slate.column), top)
        itself = torch.exp(relevant - top)
        # Column i's share of its own sum is replaced by the exact 1/N, which is also the lower bound.
        own_mass = weight.gather(1, slate.column) * itself
        others = (mass.sum(-1, keepdim=True) - own_mass).clamp_min(0.0)
        exact = own_mass + own * itself
        estimate = (others + exact).clamp_min(torch.finfo(h.dtype).tiny)
        log_estimate = torch.log(estimate) + (top - relevant)
        new = log_moving_average(old, log_estimate, self.gamma)

        sampled = active.sum(-1, keepdim=True).clamp_min(1).to(h.dtype)
        share = torch.where(active, row_shares(slate, h.dtype).unsqueeze(1) / sampled, 0.0)
        inverse = torch.where(active, share * torch.exp(top - relevant - new), 0.0)
        gradient = mass * inverse.sum(-1, keepdim=True)
        gradient = gradient.scatter_add(1, slate.column, -inverse * (others + own_mass))
        nll = torch.where(active, new + torch.log(lists["list_size"]).unsqueeze(1), 0.0)
        return (share * nll).sum(), gradient, new
