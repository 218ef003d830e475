"""EASE: a linear model of the items in a user's history, fitted in closed form."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from songrank.core.checks import check_int, check_number, fail
from songrank.core.csr import CSR, offsets
from songrank.core.options import Annotated, Constraint, Count, checked
from songrank.functional.item_regression import FewItemRegressions, all_item_weights
from songrank.models._inputs import column_scores, last_items
from songrank.models.base import Capabilities, ClosedFormFit, RankingModel, ValidateTrial

DENSE_ITEMS = 12_000
"""Largest catalogue for which ``neighbours="auto"`` means all: its matrix is inverted in about 15 s on two cores."""
NEIGHBOURS = 256
"""K of larger catalogues."""
REGULARISATIONS = (20.0, 50.0, 120.0, 300.0, 800.0, 2000.0)
"""Values of λ to choose from on validation."""
BESIDE = 1.58
"""The values λ · 1.58 and λ / 1.58 of the best of them are tried next."""
DEFAULT_REGULARISATION = 120.0
"""λ where there is no validation split."""
SEARCH_NEIGHBOURS = 64
"""K of the model that λ is chosen with, for more than :data:`SEARCH_DENSE_ITEMS` items."""
SEARCH_DENSE_ITEMS = 4_000
"""Largest catalogue for which λ is chosen with the model itself: a dense fit takes at most 2 s on one core."""
_ENTRIES = 2**22  # weights of history items to add at a time


def _regularisation(name: str, value: Any) -> float | str:
    if isinstance(value, str):
        return value if value == "auto" else fail(name, value, "'auto' or a number above 0")
    return check_number(name, value, 0.0, low_open=True)


def _neighbours(name: str, value: Any) -> int | str:
    if isinstance(value, str):
        return value if value in ("auto", "all") else fail(name, value, "'auto', 'all' or a whole number of at least 1")
    return check_int(name, value)


class Ease(RankingModel):
    """EASE (Steck, *Embarrassingly Shallow Autoencoders for Sparse Data*, WWW 2019), dense or with few neighbours.

    With X the binary matrix of users and items of the training split, and H the set of items in a history,

        score of item i = Σ_{j ∈ H} B_ji,      B = argmin ‖X − XB‖² + λ‖B‖²  with  diag B = 0

    With ``neighbours`` K, column i of B is the same ridge regression on the K items with the largest cosine
    G_ij / √(G_ii G_jj) of G = XᵀX; B then has N · K numbers instead of N². The scores of an empty history are the mean
    of X, the share of training users of each item: the regression on nothing.

    The model is fitted in closed form (:meth:`fit_closed_form`), without a loss or an optimiser. Any history is a
    query. Repeated items count once. Histories are rows [B, T] of items, padded with −1 at the end.

    Args:
        num_items: N.
        regularisation: λ, or ``"auto"``: chosen on the validation split, 120 without one.
        neighbours: K, ``"all"``, or ``"auto"``: all up to 12,000 items, 256 above.
        length: maximum number of items per history; the last ones are read.

    >>> from songrank.models import Ease
    >>> model = Ease(num_items=3, regularisation=1.0)
    >>> model.fit_closed_form(CSR.from_lengths([2, 2], item=[0, 1, 1, 2])).options
    {'regularisation': 1.0}
    >>> model.score_all(torch.tensor([[0, 1], [-1, -1]]))
    tensor([[0.4000, 0.5000, 0.2000],
            [0.5000, 1.0000, 0.5000]])
    """

    capabilities = Capabilities("history", closed_form=True)
    history_length: int
    offsets: Tensor
    item: Tensor

    @checked
    def __init__(
        self,
        num_items: Count,
        regularisation: Annotated[float | str, Constraint(_regularisation)] = "auto",
        neighbours: Annotated[int | str, Constraint(_neighbours)] = "auto",
        length: Count = 10_000,
    ) -> None:
        super().__init__()
        self.num_items, self.regularisation, self.history_length = num_items, regularisation, length
        if neighbours == "auto":
            neighbours = "all" if num_items <= DENSE_ITEMS else NEIGHBOURS
        dense = isinstance(neighbours, str) or neighbours >= num_items - 1
        self.neighbours = None if dense else int(neighbours)  # None: all
        self.query_bytes = 16 * length
        self.popularity = nn.Parameter(torch.zeros(num_items), requires_grad=False)
        shape = (num_items, num_items) if self.neighbours is None else (num_items * self.neighbours,)
        self.weight = nn.Parameter(torch.zeros(shape), requires_grad=False)
        if self.neighbours is not None:  # the rows of B: row j has the items with j among their neighbours
            following = torch.arange(num_items).unsqueeze(1) + torch.arange(1, self.neighbours + 1)
            self.register_buffer("offsets", torch.arange(num_items + 1) * self.neighbours)
            self.register_buffer("item", (following % num_items).flatten().int())

    def reset_head(self) -> None:
        """Do nothing: there is no head."""

    def check_buffers(self) -> None:
        """Raise ``ValueError`` unless the buffers are the rows of B, with ``neighbours`` entries in each column."""
        if self.neighbours is None:
            return
        ends, item = self.offsets, self.item
        if int(ends[0]) or int(ends[-1]) != item.shape[0] or bool((ends.diff() < 0).any()):
            raise ValueError("offsets")
        if int(item.min()) < 0 or not bool((torch.bincount(item.long()) == self.neighbours).all()):
            raise ValueError("item")

    def fit_closed_form(self, histories: CSR, validate: ValidateTrial | None = None) -> ClosedFormFit:
        """Fit B, and λ unless it is given, to histories with distinct items; ``validate`` is the score of a model.

        Up to 4,000 items, λ is chosen with the model itself, above with models of 64 neighbours, which take a fraction
        of its time.
        """
        chooses = self.regularisation == "auto" and validate is not None
        trial = self.search_model() if chooses else self
        kept = [model.neighbours for model in (self, trial) if model.neighbours is not None]
        few = FewItemRegressions(histories, self.num_items, max(kept, default=0))
        chosen = DEFAULT_REGULARISATION if isinstance(self.regularisation, str) else self.regularisation
        if chooses and validate is not None:
            chosen = best_regularisation(lambda value: validate(trial, trial.fit_regularisation(few, value)))
        return self.fit_regularisation(few, chosen)

    def search_model(self) -> "Ease":
        """The model that λ is chosen with: itself, or one of few neighbours if that is much faster."""
        own = self.neighbours is not None and self.neighbours <= SEARCH_NEIGHBOURS
        if own or (self.neighbours is None and self.num_items <= SEARCH_DENSE_ITEMS):
            return self
        return Ease(self.num_items, neighbours=SEARCH_NEIGHBOURS)

    @torch.no_grad()
    def fit_regularisation(self, few: FewItemRegressions, regularisation: float) -> ClosedFormFit:
        """Set B for one λ; the objective is its minimum per interaction, 1 for B = 0."""
        if self.neighbours is None:
            counts = few.counts()
            weight = all_item_weights(counts, regularisation)
            explained = float((counts * weight).sum(dtype=torch.float64))
        else:
            by_column, explained_by_item = few.solve(regularisation, self.neighbours)
            weight = self._set_rows(few.neighbours[:, : self.neighbours], by_column)
            explained = float(explained_by_item.sum(dtype=torch.float64))
        self.weight.copy_(weight)
        self.popularity.copy_(few.item_counts / max(1, few.num_rows))
        interactions = max(1, int(few.item_counts.sum()))
        return ClosedFormFit(1.0 - explained / interactions, {"regularisation": regularisation})

    def _set_rows(self, neighbours: Tensor, by_column: Tensor) -> Tensor:
        """Order the neighbours [N, K] of each column by row of B; return the weights [N, K] in this order."""
        target = torch.arange(self.num_items).repeat_interleave(neighbours.shape[1])
        source, order = neighbours.flatten().long().sort(stable=True)
        self.offsets = offsets(torch.bincount(source, minlength=self.num_items))
        self.item = target[order].int()
        return by_column.flatten()[order]

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L] of the items [B, L] or [1, L] for the histories [B, T]."""
        return column_scores(self.score_all(query), item)

    def item_similarity(self, item: Tensor) -> Tensor:
        """[B, num_items]: the scores of the history of one item."""
        return self.score_all(item.unsqueeze(1))

    def score_all(self, query: Tensor) -> Tensor:
        """Scores [B, num_items] for the histories [B, T]."""
        history = last_items(query, self.history_length)[0].sort(dim=1).values
        known = history >= 0
        known[:, 1:] &= history[:, 1:] != history[:, :-1]  # each item once
        count, items = known.sum(1), history[known]
        if self.neighbours is None:
            scores = F.embedding_bag(items, self.weight, offsets(count)[:-1], mode="sum")
        else:
            scores = self._sparse_scores(CSR(offsets(count), {"item": items}))
        return torch.where((count > 0).unsqueeze(1), scores, self.popularity)

    def _sparse_scores(self, histories: CSR) -> Tensor:
        """The sums of the rows of B of each history."""
        rows = CSR(self.offsets, {"item": self.item, "weight": self.weight})
        scores = self.weight.new_zeros(len(histories), self.num_items)
        owner, items = histories.row_of_entries() * self.num_items, histories["item"]
        ends = rows.lengths[items].cumsum(0)
        first, done = 0, 0
        while first < items.shape[0]:
            last = max(first + 1, int(torch.searchsorted(ends, done + _ENTRIES, right=True)))
            entry, at = rows.entries(items[first:last])
            scores.view(-1).index_add_(0, owner[first:last][entry] + rows["item"][at], rows["weight"][at])
            first, done = last, int(ends[last - 1])
        return scores

    def for_export(self) -> "RankingModel":
        """The same model on the indicator vector of a history, with a fixed number of operations."""
        return _EaseOfIndicators(self)


class _EaseOfIndicators(RankingModel):
    """EASE as operations on the indicators x [B, N] of histories: x B, or gathers of x with few neighbours."""

    capabilities = Ease.capabilities
    source: Tensor

    def __init__(self, model: Ease) -> None:
        super().__init__()
        self.num_items, self.history_length = model.num_items, model.history_length
        self.popularity, self.weight = model.popularity, model.weight
        if model.neighbours is not None:  # the entries of B by column
            order = model.item.long().sort(stable=True).indices
            source = CSR(model.offsets, {}).row_of_entries()[order]
            self.register_buffer("source", source)
            self.weight = nn.Parameter(model.weight.detach()[order].view(model.num_items, -1), requires_grad=False)
        self.dense = model.neighbours is None

    def reset_head(self) -> None:
        """Do nothing: there is no head."""

    def score_all(self, history: Tensor) -> Tensor:
        """Scores [B, num_items] for the histories [B, T]."""
        place = torch.where(history < 0, self.num_items, history)
        met = torch.zeros(history.shape[0], self.num_items + 1, dtype=self.weight.dtype)
        met = met.scatter(1, place, torch.ones_like(place, dtype=self.weight.dtype))[:, :-1]
        if self.dense:
            scores = met @ self.weight
        else:
            scores = (met[:, self.source.flatten()].view(-1, *self.weight.shape) * self.weight).sum(2)
        return torch.where(met.sum(1, keepdim=True) > 0, scores, self.popularity)


def best_regularisation(value: Callable[[float], float], among: Sequence[float] = REGULARISATIONS) -> float:
    """The λ with the largest ``value``: of the list ``among``, then of two values beside the best of them.

    >>> best_regularisation(lambda regularisation: -abs(regularisation - 190))
    190.0
    """
    found = {one: value(one) for one in among}
    best = max(found, key=found.__getitem__)
    for factor in (1 / BESIDE, BESIDE):
        beside = float(f"{best * factor:.2g}")
        found[beside] = value(beside)
    return max(found, key=found.__getitem__)
