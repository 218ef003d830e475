"""Base classes and traits of all losses: argument checks, memory, and the weighted mean over queries."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.hashing import derive_key, random_bits
from songrank.core.options import Annotated, Choice, Number, Whole, WithOptions
from songrank.core.slate import Slate
from songrank.functional.surrogates import SURROGATES
from songrank.losses.memory import MemoryTable
from songrank.losses.paper_form import PaperForm

Gamma = Annotated[float, Number(0.0, 1.0, low_open=True)]
"""Weight of the newest estimate in a moving average."""
Positive = Annotated[float, Number(0.0, low_open=True)]
NotNegative = Annotated[float, Number(0.0)]
Count = Annotated[int, Whole()]
SurrogateName = Annotated[str, Choice(SURROGATES)]
Rows = dict[str, Tensor]
"""Memory rows of one slate: a tensor [B, P] per pair table, [B] per query table."""


@dataclass(frozen=True)
class Traits:
    """The declared properties of a loss class.

    Args:
        memory: it is a ``MemoryLoss`` with one float per pair or query between steps.
        gains: it depends on gains, so document weights can multiply them.
        cost: cost per list of L items, P of them relevant.
        objective: description of ``objective()``, the caption of a curve.
        unit: unit of that value: ``"NDCG"``, ``"nats"``, or ``""`` for none.
        compiles: ``torch.compile`` supports it.
        previous_point: ``forward`` takes the scores at the previous weights, ``before=`` (``loss.points`` is 2), or
            their change, ``change=`` (1); the optimiser is variance-reduced (``Storm``).
        whole_batch: a step needs all rows of a batch at once.
        plain: name of the loss whose recipe settings are the defaults of this one.
        search: options to tune and their range: ``"weight"`` up to 1, ``"scale"`` by factors around the current value,
            ``"offset"`` or ``"cutoff"`` a list of choices.

    >>> from songrank import KSONG
    >>> KSONG.traits.cost
    'O(P·L)'
    """

    memory: bool = False
    gains: bool = False
    cost: Literal["O(L)", "O(P·L)", "O(L²)"] = "O(L)"
    objective: str = "the loss itself"
    unit: str = ""
    compiles: bool = True
    previous_point: bool = False
    whole_batch: bool = False
    plain: str | None = None
    search: Mapping[str, Literal["weight", "scale", "offset", "cutoff"]] = field(default_factory=dict)


class RankingLoss(nn.Module, WithOptions, ABC):
    """Base class of all losses: ``loss(scores[B, L], slate) -> scalar``.

    Args:
        validate: check the values of each slate and its scores; errors name the invalid query. For debugging, since it
            synchronises the device.
    """

    traits: ClassVar[Traits] = Traits()
    k: int | None = None
    """K of the optimised NDCG@K; None for the whole list."""
    points: int = 0
    """With the trait ``previous_point``: number of weight points at which scores are computed, 1 or 2."""

    def __init__(self, *, validate: bool = False) -> None:
        super().__init__()
        self.validate = validate

    @classmethod
    def searched(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """The options of ``traits.search`` that have an effect beside these ``options``."""
        return cls.traits.search

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless the scores match the slate."""
        if not isinstance(slate, Slate):
            fail("slate", type(slate).__name__, "a songrank.Slate", TypeError)
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            fail("scores", getattr(scores, "dtype", type(scores).__name__), "a floating point tensor", TypeError)
        if scores.shape != slate.label.shape:
            raise ValueError(
                f"scores has shape {list(scores.shape)}; expected that of slate.label, {list(slate.label.shape)}"
            )
        if self.k is not None and slate.k is not None and slate.k != self.k:
            self._wrong_k(slate)
        if self.validate:
            slate.check(scores)

    def _wrong_k(self, slate: Slate) -> NoReturn:
        fail("slate.k", slate.k, f"the k of this loss, {self.k}: pass k={self.k} to SlateSampler or Slate.from_batch")

    @abstractmethod
    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss: a scalar."""

    @abstractmethod
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """A value for monitoring: no gradient, no state change."""


class ListLoss(RankingLoss):
    """Base class of losses without memory: the weighted mean over queries of ``formula``, set by the subclass.

    >>> from songrank import ListNet, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ListNet()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.5623)
    """

    formula: ClassVar[Callable[..., Tensor]]
    """A ``staticmethod`` with the signature of :mod:`songrank.functional`; takes ``gain`` with the trait ``gains``."""
    by_column: ClassVar[bool] = False
    """Whether the formula also takes ``column``, the columns of the relevant items."""
    by_weight: ClassVar[bool] = False
    """Whether the formula also takes ``weight``, the slate's own sampling weights, or None."""
    by_list_size: ClassVar[bool] = False
    """Whether the formula also takes ``list_size`` and ``num_relevant`` of lists of which the slate has a sample."""

    def __init__(self, *, validate: bool = False, **options: Any) -> None:
        super().__init__(validate=validate)
        self.options, self.k = options, options.get("k")

    def _arguments(self, slate: Slate) -> dict[str, Any]:
        """Arguments of the formula besides scores, labels and mask."""
        gain = {"gain": slate.gain} if self.traits.gains else {}
        column = {"column": slate.relevant_columns} if self.by_column else {}
        weight = {"weight": slate.weight} if self.by_weight else {}
        sampled = self.by_list_size and not slate.whole
        sizes = {"list_size": slate.list_size, "num_relevant": slate.num_relevant} if sampled else {}
        return {**gain, **column, **weight, **sizes, **self.options}

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """Weighted mean over the slate's queries."""
        self.check(scores, slate)
        mask = None if slate.whole else slate.mask.expand(slate.label.shape)
        values = self.formula(scores, slate.label, mask=mask, reduction="none", **self._arguments(slate))
        return (values * row_shares(slate, values.dtype)).sum()

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss itself."""
        return self.forward(scores, slate)


class RandomListLoss(ListLoss):
    """Base class of list losses that draw random numbers in each step.

    They depend only on (``seed``, step, query, item), not on padding, column order, batch or device. The step is
    counted in a buffer, so a resumed run continues the sequence.
    """

    steps: Tensor
    """int64: steps taken in training mode."""

    def __init__(self, seed: int, *, validate: bool = False, **options: Any) -> None:
        super().__init__(validate=validate, **options)
        self.key = derive_key(seed)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """Weighted mean over the slate's queries; each step in training mode draws new numbers."""
        value = super().forward(scores, slate)
        if self.training:
            self.steps.add_(1)
        return value

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss itself, with the numbers of this step."""
        return super().forward(scores, slate)

    def _bits_of_queries(self, slate: Slate) -> Tensor:
        """[B, 1]: random bits of this step's queries."""
        return random_bits(random_bits(self.key, self.steps), slate.query).unsqueeze(1)


class MemoryLoss(RankingLoss):
    """Base class of losses with memory. A subclass registers its tables and implements a pure ``step``.

    ``forward`` gathers the slate's rows, calls ``step`` and, in training mode only, scatters the new rows. The value
    estimates the objective F(w_t); its autograd gradient is the paper's estimator G(w_t).

    G is a constant for autograd: there is no second derivative, and ``torch.func`` transforms work on ``step`` or in
    evaluation mode. Keep the loss outside ``DistributedDataParallel`` or pass it ``broadcast_buffers=False``:
    otherwise the memory of the first process overwrites the others.

    Args:
        num_pairs: number of pair rows, an upper bound of the row ids in ``slate.pair`` (0 … num_pairs − 1); usually
            ``relevance.num_pairs``, 0 for whole lists with γ = 1.
        num_queries: number of query rows, an upper bound of ``slate.query`` (0 … num_queries − 1).
        gamma: γ in (0, 1], weight of the newest estimate; 1 is the biased mini-batch form.
        form: deviations from the paper's algorithm, a :class:`PaperForm` (:class:`FasterForm` for the faster losses);
            ``"paper"`` for none.
        pair_range: half-open range of the pair rows held here, ``relevance.pair_range``; all by default.
        query_range: half-open range of the queries held here, ``relevance.query_range``; all by default.
        dtype: precision of the memory, float32 or float64.
    """

    by_pair: tuple[str, ...] = ()
    """Names of the tables with one row per pair."""
    by_query: tuple[str, ...] = ()
    """Names of the tables with one row per query."""
    switches: tuple[str, ...] = ()
    """Fields of ``form`` that apply to this loss."""
    form_kind: ClassVar[type[PaperForm]] = PaperForm

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise if ``form`` sets a field that does not apply to this loss."""
        cls.form_kind.read(options["form"], cls.switches)

    def __init__(self, gamma: float, form: PaperForm, *, validate: bool = False) -> None:
        super().__init__(validate=validate)
        self.gamma = gamma
        self.form = form

    def extra_repr(self) -> str:
        """γ, and K if there is one."""
        return f"gamma={self.gamma:g}" + (f", k={self.k}" if self.k is not None else "")

    @abstractmethod
    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure function: (value, new rows) from scores, slate and current rows."""

    def gather(self, slate: Slate) -> Rows:
        """The current rows of this slate."""
        return {
            name: self.table(name).take(places).view(rows.shape)
            for rows, places, names in self._places(slate)
            for name in names
        }

    def scatter(self, slate: Slate, rows: Rows) -> None:
        """Write the rows of this slate, except padding and values that are not finite."""
        with torch.no_grad():
            for _, places, names in self._places(slate):
                for name in names:
                    self.table(name).put(places, rows[name])

    def _places(self, slate: Slate) -> Iterator[tuple[Tensor, Tensor, tuple[str, ...]]]:
        """(rows, their places, the tables that hold them); tables of a kind hold the same range."""
        if self.by_pair:
            table = self.table(self.by_pair[0])
            rows = torch.full_like(slate.column, -1) if slate.pair is None or not table.num_rows else slate.pair
            yield rows, table.locate(rows), self.by_pair
        if self.by_query:
            rows = torch.where(slate.rows_present, slate.query, -1)
            yield rows, self.table(self.by_query[0]).locate(rows), self.by_query

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """Compute the loss; update the memory in training mode."""
        self.check(scores, slate)
        return self._visit(scores, slate)

    def _visit(self, scores: Tensor, slate: Slate, *others: Tensor | None) -> Tensor:
        """Gather, ``step``, which also takes ``others``, and in training mode scatter."""
        with torch.autocast(scores.device.type, enabled=False):
            value, rows = self.step(scores, slate, self.gather(slate), *others)
        if self.training:
            self.scatter(slate, rows)
        return value

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """A value for monitoring, computed as if this slate had updated the memory; no state change."""
        self.check(scores, slate)
        with torch.autocast(scores.device.type, enabled=False):
            return self._objective(present_scores(scores, slate, self._working_type(scores)), slate, self.gather(slate))

    @abstractmethod
    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """Value of :meth:`objective`, from scores that are 0 at padding."""

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless the scores match the slate and the memory holds the slate's rows."""
        super().check(scores, slate)
        if self.gamma < 1.0 and self.by_pair and not self.table(self.by_pair[0]).num_rows:
            fail(
                "num_pairs",
                0,
                f"relevance.num_pairs, since gamma={self.gamma:g} is below 1; or gamma=1 for whole lists",
            )
        if slate.pair is None and self.gamma < 1.0:
            fail("slate.pair", None, f"a memory row id for each relevant pair, since gamma={self.gamma:g} is below 1")
        for name, rows, tables in (("pair", slate.pair, self.by_pair), ("query", slate.query, self.by_query)):
            if self.validate and rows is not None and tables:
                table = self.table(tables[0])
                first, last = table.first, table.last
                strange = rows[(rows >= 0) & ((rows < first) | (rows >= last))]
                if strange.numel():
                    held = f"the memory of this loss ({table.size_argument}={table.num_rows})"
                    fail(f"slate.{name}", int(strange[0]), f"row ids from {first} to {last - 1}, {held}")

    def table(self, name: str) -> MemoryTable:
        """A memory table, by name."""
        table = getattr(self, name)
        assert isinstance(table, MemoryTable)
        return table

    @property
    def estimates(self) -> tuple[str, ...]:
        """Tables whose rows estimate a quantity of the full list."""
        return self.by_pair

    def reset(self) -> None:
        """Clear the memory."""
        for name in self.by_pair + self.by_query:
            self.table(name).reset()

    def _working_type(self, scores: Tensor) -> torch.dtype:
        """The higher precision of the memory and the scores."""
        first = (self.by_pair + self.by_query)[0]
        return torch.promote_types(scores.dtype, self.table(first).values.dtype)


def row_weights(slate: Slate, dtype: torch.dtype) -> Tensor:
    """[B]: the weight of each query in a mean; 0 for rows that are all padding."""
    weight = slate.rows_present.to(dtype)
    return weight if slate.row_weight is None else weight * slate.row_weight.to(dtype)


def row_shares(slate: Slate, dtype: torch.dtype) -> Tensor:
    """[B]: the share of each query in the mean over the batch."""
    weight = row_weights(slate, dtype)
    total = weight.sum()
    return weight / torch.where(total > 0, total, torch.ones_like(total))


def present_scores(scores: Tensor, slate: Slate, dtype: torch.dtype) -> Tensor:
    """The scores in ``dtype``, 0 at padding, where the gradient is exactly 0."""
    return (scores if slate.whole else torch.where(slate.mask.expand(slate.label.shape), scores, 0.0)).to(dtype)


def attach_gradient(value: Tensor, scores: Tensor, gradient: Tensor) -> Tensor:
    """A scalar equal to ``value`` whose derivative in ``scores`` is ``gradient``, both of them constants."""
    carrier = (scores * gradient.detach()).sum()
    return value.detach() + (carrier - carrier.detach())
