"""What all losses share: the common call ``loss(scores, slate)``, checks, and the weighted mean over queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.options import Annotated, Choice, Number, Whole, WithOptions
from songrank.core.slate import Slate
from songrank.functional.surrogates import SURROGATES
from songrank.losses.memory import MemoryTable
from songrank.losses.paper_form import PaperForm
from songrank.losses.traits import Traits

Gamma = Annotated[float, Number(0.0, 1.0, low_open=True)]
"""The weight of the newest estimate in a moving average."""
Positive = Annotated[float, Number(0.0, low_open=True)]
NotNegative = Annotated[float, Number(0.0)]
Count = Annotated[int, Whole()]
SurrogateName = Annotated[str, Choice(SURROGATES)]
Rows = dict[str, Tensor]
"""A loss's memory for one slate: a tensor [B, P] for each table by pair, [B] for each table by query."""


class RankingLoss(nn.Module, WithOptions, ABC):
    """A loss of the common call: ``loss(scores[B, L], slate) -> scalar``.

    Args:
        validate: check the values of every slate and its scores, naming the query at fault. It reads from the device,
            so it is for finding a mistake, not for training at full speed.

    """

    traits: ClassVar[Traits] = Traits()
    """What the class declares about itself."""
    k: int | None = None
    """The K of the NDCG it is about; None for the whole list."""
    points: int = 0
    """Where traits say ``previous_point``: at how many points the scores are computed, 1 or 2."""

    def __init__(self, *, validate: bool = False) -> None:
        super().__init__()
        self.validate = validate

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless the scores fit the slate."""
        if not isinstance(slate, Slate):
            fail("slate", type(slate).__name__, "a songrank.Slate", TypeError)
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            fail("scores", getattr(scores, "dtype", type(scores).__name__), "a floating point tensor", TypeError)
        if scores.shape != slate.label.shape:
            raise ValueError(
                f"scores has shape {list(scores.shape)}; expected that of slate.label, {list(slate.label.shape)}"
            )
        if self.k is not None and slate.k is not None and slate.k != self.k:
            fail("slate.k", slate.k, f"the k of this loss, {self.k}")
        if self.validate:
            slate.check(scores)

    @abstractmethod
    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss: a scalar."""

    @abstractmethod
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """A value that a person can follow, without gradient and without touching any state."""


class ListLoss(RankingLoss):
    """A loss without memory. A subclass names its formula and sets the formula's options."""

    formula: ClassVar[Callable[..., Tensor]]
    """``fn(scores, labels, *, mask, reduction, …)`` of ``songrank.functional``, as a ``staticmethod``. It is given
    ``gain`` if the traits say that the loss is a function of gains."""
    by_column: ClassVar[bool] = False
    """Whether the formula also takes ``column``, the columns of the relevant items."""

    def __init__(self, *, validate: bool = False, **options: Any) -> None:
        super().__init__(validate=validate)
        self.options, self.k = options, options.get("k")

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = None if slate.whole else slate.mask.expand(slate.label.shape)
        return self.formula(scores, slate.label, mask=mask, reduction="none", **self._arguments(slate))

    def _arguments(self, slate: Slate) -> dict[str, Any]:
        """What the formula takes besides scores, labels and mask."""
        gain = {"gain": slate.gain} if self.traits.gains else {}
        column = {"column": slate.relevant_columns} if self.by_column else {}
        return {**gain, **column, **self.options}

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """Weighted mean over the slate's queries."""
        self.check(scores, slate)
        values = self.per_list(scores, slate)
        return (values * row_shares(slate, values.dtype)).sum()

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss itself: readable as it is."""
        return self.forward(scores, slate)


class MemoryLoss(RankingLoss):
    """A loss that remembers. A subclass registers its tables and gives a pure ``step``.

    ``forward`` gathers the slate's rows, calls ``step`` and, in training mode only, scatters the new rows. The value's
    autograd gradient is the paper's estimator G(w_t); the value itself is the estimate of the objective F(w_t).

    G is a constant for autograd: there is no second derivative to take, and ``torch.func`` transforms work on ``step``
    or in evaluation mode. Keep the loss outside a ``DistributedDataParallel`` module, or give that one
    ``broadcast_buffers=False``: by default it copies the first process's buffers, this memory too, over all others'.
    """

    by_pair: tuple[str, ...] = ()
    """Names of the tables with one row a pair."""
    by_query: tuple[str, ...] = ()
    """Names of the tables with one row a query."""

    switches: tuple[str, ...] = ()
    """Names of the switches of its form that it has."""

    form_kind: ClassVar[type[PaperForm]] = PaperForm
    """The class of its ``form``."""

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise for a form that this loss cannot have."""
        cls.form_kind.read(options["form"], cls.switches)

    def __init__(self, gamma: float, form: PaperForm, *, validate: bool = False) -> None:
        super().__init__(validate=validate)
        self.gamma = gamma
        self.form = form

    @abstractmethod
    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure: (value, new rows) from scores, slate and the rows before. Changes nothing."""

    def gather(self, slate: Slate) -> Rows:
        """The rows of this slate, as they are now."""
        return {
            name: self.table(name).take(places).view(rows.shape)
            for rows, places, names in self._places(slate)
            for name in names
        }

    def scatter(self, slate: Slate, rows: Rows) -> None:
        """Write the rows of this slate. Rows of padding are not written, nor values that are not finite."""
        with torch.no_grad():
            for _, places, names in self._places(slate):
                for name in names:
                    self.table(name).put(places, rows[name])

    def _places(self, slate: Slate) -> Iterator[tuple[Tensor, Tensor, tuple[str, ...]]]:
        """(rows, where they lie, the tables that hold them): the tables of a kind hold the same range."""
        if self.by_pair:
            rows = torch.full_like(slate.column, -1) if slate.pair is None else slate.pair
            yield rows, self.table(self.by_pair[0]).locate(rows), self.by_pair
        if self.by_query:
            rows = torch.where(slate.rows_present, slate.query, -1)
            yield rows, self.table(self.by_query[0]).locate(rows), self.by_query

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss, with the memory brought up to date if this module is in training mode."""
        self.check(scores, slate)
        with torch.autocast(scores.device.type, enabled=False):
            value, rows = self.step(scores, slate, self.gather(slate))
        if self.training:
            self.scatter(slate, rows)
        return value

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """A value that a person can follow, from the memory as this slate would leave it; changes nothing."""
        self.check(scores, slate)
        with torch.autocast(scores.device.type, enabled=False):
            return self._objective(present_scores(scores, slate, self._working_type(scores)), slate, self.gather(slate))

    @abstractmethod
    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """What :meth:`objective` reports, from scores that are 0 at padding."""

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless the scores fit the slate and its pairs can be remembered."""
        super().check(scores, slate)
        if slate.pair is None and self.gamma < 1.0:
            fail("slate.pair", None, f"a row for each relevant pair, since gamma={self.gamma:g} needs a memory of them")
        if self.validate:
            for name, rows in [("pair", self.by_pair), ("query", self.by_query)]:
                self._check_held(f"slate.{name}", getattr(slate, name), rows)

    def _check_held(self, argument: str, rows: Tensor | None, tables: tuple[str, ...]) -> None:
        if rows is None or not tables:
            return
        table, present = self.table(tables[0]), rows[rows >= 0]
        strange = present[(present < table.first) | (present >= table.last)]
        if strange.numel():
            fail(argument, int(strange[0]), f"rows from {table.first} to {table.last - 1}, those this loss remembers")

    def table(self, name: str) -> MemoryTable:
        """One of this loss's tables, by name."""
        table = getattr(self, name)
        assert isinstance(table, MemoryTable)
        return table

    @property
    def estimates(self) -> tuple[str, ...]:
        """Names of the tables whose rows estimate a quantity of the full list."""
        return self.by_pair

    def reset(self) -> None:
        """Forget everything: every next visit is a first one."""
        for name in self.by_pair + self.by_query:
            self.table(name).reset()

    def _working_type(self, scores: Tensor) -> torch.dtype:
        """The precision to compute in: that of the memory, or of the scores where they are finer."""
        first = (self.by_pair + self.by_query)[0]
        return torch.promote_types(scores.dtype, self.table(first).values.dtype)


def row_weights(slate: Slate, dtype: torch.dtype) -> Tensor:
    """[B]: the weight of each query in a mean; rows that are all padding have none."""
    weight = slate.rows_present.to(dtype)
    return weight if slate.row_weight is None else weight * slate.row_weight.to(dtype)


def row_shares(slate: Slate, dtype: torch.dtype) -> Tensor:
    """[B]: the share of each query in the mean over the batch."""
    weight = row_weights(slate, dtype)
    total = weight.sum()
    return weight / torch.where(total > 0, total, torch.ones_like(total))


def present_scores(scores: Tensor, slate: Slate, dtype: torch.dtype) -> Tensor:
    """The scores in ``dtype``, 0 at padding: whatever stands there, its gradient is exactly 0."""
    if slate.whole:
        return scores.to(dtype)
    mask = slate.mask.expand(slate.label.shape)
    return torch.where(mask, scores, 0.0).to(dtype)


def attach_gradient(value: Tensor, scores: Tensor, gradient: Tensor) -> Tensor:
    """A scalar equal to ``value`` whose derivative in ``scores`` is ``gradient``, both of them constants."""
    carrier = (scores * gradient.detach()).sum()
    return value.detach() + (carrier - carrier.detach())
