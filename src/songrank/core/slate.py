"""A mini-batch: sampled sub-lists of several queries, with statistics of their full lists."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_shape, check_tensor, check_type, fail
from songrank.core.gains import Gain, check_gain, ideal_dcg


@dataclass(frozen=True, eq=False, kw_only=True)
class Slate:
    """An immutable mini-batch of B queries and L candidate columns, from a sampler to a model and a loss.

    Shapes and types are validated on construction, values only by :meth:`check` (it synchronises with the device).

    >>> slate = Slate.from_batch(labels=torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([7]))
    >>> slate.num_relevant, slate.list_size
    (tensor([2]), tensor([3]))
    """

    query: Tensor
    """[B] int64."""
    item: Tensor
    """[B, L] int64, or [1, L] if all rows share their candidates."""
    label: Tensor
    """[B, L] float, y ≥ 0."""
    mask: Tensor
    """[B, L] or [1, L] bool, False for padding."""
    pair: Tensor | None
    """[B, P] int64: row of each relevant pair in the memory of the loss, −1 for none. None for losses without memory;
    relevant items are then treated as new."""
    column: Tensor = None  # type: ignore[assignment]
    """[B, P] int64: the column of each of these relevant items; the first P by default."""
    list_size: Tensor
    """[B]: N_q, of the full list."""
    num_relevant: Tensor
    """[B]: N_q⁺, of the full list."""
    ideal_dcg: Tensor
    """[B]: Z_q of the full list, for this ``k`` and ``gain``."""
    k: int | None = None
    """The K of top-K NDCG; None for the whole list."""
    weight: Tensor | None = None
    """[B, L]: custom sampling weights, which sum to 1 in each row; None for the stratified weights."""
    row_weight: Tensor | None = None
    """[B]: weight of each query in the batch mean, 0 for padding rows."""
    gain: Gain = "exp2"
    """The gain function of ``ideal_dcg`` and the loss."""
    complete: bool = False
    """Whether ``column`` holds all relevant items of the slate; set to False when replacing labels."""
    whole: bool = False
    """Whether every row holds its whole list without padding: a mean over columns is then the mean over the list, and
    losses ignore ``mask``, which all rows share; set to False when replacing items or mask."""

    def __repr__(self) -> str:
        rows, columns = self.label.shape
        pairs = "no pairs" if self.pair is None else f"{self.pair.shape[1]} pairs each"
        k = "" if self.k is None else f", k={self.k}"
        return f"Slate({rows} queries, {columns} items and {pairs}{k}, {self.label.device})"

    def rows(self, first: int, last: int) -> Self:
        """The slate of the queries ``first`` to ``last`` − 1, as a view.

        >>> slate = Slate.from_batch(labels=torch.tensor([[2.0, 0.0], [0.0, 1.0]]), query=torch.tensor([7, 8]))
        >>> slate.rows(1, 2).query
        tensor([8])
        """
        count = self.query.shape[0]
        shared = [name for name in ("item", "mask") if count == 1 or getattr(self, name).shape[0] != count]
        return replace(self, **{k: value[first:last] for k, value in self._tensors().items() if k not in shared})

    def _tensors(self) -> dict[str, Any]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def __post_init__(self) -> None:
        if not isinstance(self.label, Tensor) or self.label.dim() != 2:
            fail("slate.label", getattr(self.label, "shape", self.label), "a tensor of shape [B, L]")
        rows, columns = self.label.shape
        if columns == 0:
            fail("slate.label", self.label.shape, "at least one column")
        check_gain(self.gain)
        shared = ((rows, columns), (1, columns))
        check_shape("slate.query", self.query, (rows,), meaning="[B]")
        check_shape("slate.item", self.item, *shared, meaning="[B, L] or [1, L]")
        if self.whole:
            check_shape("slate.mask", self.mask, (1, columns), meaning="[1, L] for whole lists")
        check_shape("slate.mask", self.mask, *shared, meaning="[B, L] or [1, L]")
        for name in ("list_size", "num_relevant", "ideal_dcg"):
            check_shape(f"slate.{name}", getattr(self, name), (rows,), meaning="[B]")
        if self.weight is not None:
            check_shape("slate.weight", self.weight, (rows, columns), meaning="[B, L]")
        if self.row_weight is not None:
            check_shape("slate.row_weight", self.row_weight, (rows,), meaning="[B]")
        if self.k is not None:
            check_int("slate.k", self.k)
        check_type("slate.mask", self.mask, torch.bool)
        if not self.label.is_floating_point():
            fail("slate.label", self.label.dtype, "a floating-point dtype", TypeError)
        self._check_pairs(rows, columns)
        # Summing is four times as fast as any() on a CPU.
        self.__dict__["present"] = (self.mask.sum(-1) > 0).expand(rows)
        for name in ("query", "item", "pair", "column"):
            if (value := getattr(self, name)) is not None:
                check_type(f"slate.{name}", value, torch.int64)

    def _check_pairs(self, rows: int, columns: int) -> None:
        if self.pair is not None:
            if not isinstance(self.pair, Tensor) or self.pair.dim() != 2 or self.pair.shape[0] != rows:
                fail("slate.pair", getattr(self.pair, "shape", self.pair), f"a tensor of shape [B, P] with B={rows}")
            if self.column is None and self.pair.shape[1] > columns:
                fail("slate.pair", self.pair.shape, f"at most L={columns} pairs per row without slate.column")
        if self.column is None:
            width = columns if self.pair is None else self.pair.shape[1]
            object.__setattr__(self, "column", torch.arange(width, device=self.label.device).expand(rows, width))
        elif self.pair is not None:
            check_shape("slate.column", self.column, tuple(self.pair.shape), meaning="[B, P], the shape of slate.pair")

    @classmethod
    def from_batch(
        cls,
        labels: Tensor,
        query: Tensor,
        pair: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        k: int | None = None,
        gain: Gain = "exp2",
        row_weight: Tensor | None = None,
        validate: bool = True,
    ) -> "Slate":
        """Create a slate of full lists, for custom training loops; counts and ideal DCG are computed from labels.

        Not for samples of longer lists, whose counts ``Slate(…)`` takes. ``item`` holds column numbers.

        Args:
            labels: [B, L], y ≥ 0.
            query: [B], the query of each row.
            pair: [B, P], P ≤ L: row in the memory of the loss for the relevant item in each of the first P columns,
                −1 for irrelevant columns. A pair must always have the same row. Only for losses with memory.
            mask: [B, L], False for padding.
            k: cutoff K of top-K NDCG, for ``KSONG``.
            gain: gain function.
            row_weight: [B], weight of each query.
            validate: also check values, which synchronises with the device; disable it in a GPU loop.
        """
        check_tensor("labels", labels, "[B, L]")
        if labels.dim() != 2:
            fail("labels", labels.shape, "a tensor of shape [B, L]")
        values = labels if labels.is_floating_point() else labels.float()
        present = torch.ones_like(values, dtype=torch.bool)
        if mask is not None:
            check_shape("mask", mask, tuple(values.shape), (1, values.shape[1]), meaning="[B, L] or [1, L]")
            check_type("mask", mask, torch.bool)
            present = mask.expand(values.shape)
        slate = cls(
            query=query,
            item=torch.arange(values.shape[1], device=values.device).unsqueeze(0),
            label=values,
            mask=present,
            pair=pair,
            list_size=present.sum(-1),
            num_relevant=((values > 0) & present).sum(-1),
            ideal_dcg=ideal_dcg(values, mask=present, k=k, gain=gain),
            k=k,
            row_weight=row_weight,
            gain=gain,
        )
        if validate:
            slate.check()
        return slate

    @property
    def rows_present(self) -> Tensor:
        """[B] bool: rows with at least one candidate."""
        present: Tensor = self.__dict__["present"]
        return present

    @property
    def active(self) -> Tensor:
        """[B, P] bool: mask of relevant items in ``pair`` and ``column``."""
        if self.pair is not None:
            return self.pair >= 0
        return (self.mask.expand(self.label.shape) & (self.label > 0)).gather(1, self.column)

    @property
    def relevant_columns(self) -> Tensor | None:
        """[B, P]: the columns of all relevant items, −1 for entries without one; None if unknown."""
        return torch.where(self.active, self.column, -1) if self.complete else None

    def to(self, device: torch.device | str) -> "Slate":
        """The same slate on another device."""
        return replace(self, **{name: value.to(device) for name, value in self._tensors().items()})

    def check(self, scores: Tensor | None = None) -> None:
        """Check all values, and the scores if given; the error names the query. Synchronises with the device."""
        mask, present = self.mask.expand(self.label.shape), self.rows_present
        labels = torch.where(mask, self.label, 0.0)
        self._reject(~(torch.isfinite(labels) & (labels >= 0)).all(-1), "labels that are negative or not finite")
        relevant = (mask & (self.label > 0)).sum(-1)
        irrelevant = mask.sum(-1) - relevant
        size, total = self.list_size, self.num_relevant
        if self.whole:
            self._reject(~mask.all(-1) | (size != mask.shape[1]), "masked or missing columns, but slate.whole is True")
        self._reject(present & (self.query < 0), "a negative query id")
        self._reject(total > size, "more relevant items (num_relevant) than list_size")
        if self.pair is not None:
            self._check_pair_values(mask)
        if self.weight is None:
            self._reject(relevant > total, "more relevant columns than num_relevant")
            self._reject(irrelevant > size - total, "more irrelevant columns than list_size − num_relevant")
            used = present & self.active.any(-1)
            few = used & (total > 1) & (relevant < 2)
            self._reject(few, "two or more relevant items, but fewer than two are sampled")
            self._reject(used & (size > total) & (irrelevant < 1), "irrelevant items, but none are sampled")
        else:
            off = (torch.where(mask, self.weight, 0.0).sum(-1) - 1.0).abs() > 1e-3
            self._reject(present & off, "sampling weights that do not sum to 1")
        sound = torch.isfinite(self.ideal_dcg) & (self.ideal_dcg > 0)
        self._reject(self.active.any(-1) & ~sound, "relevant items but an ideal_dcg that is not positive and finite")
        if self.row_weight is not None:
            weighed = torch.isfinite(self.row_weight) & (self.row_weight >= 0)
            self._reject(~weighed, "a row_weight that is negative or not finite")
        if _repeats(self.query[present]):
            raise ValueError("slate.query has duplicates; expected each query once per slate")
        if scores is not None:
            self._reject(~torch.where(mask, scores, 0.0).isfinite().all(-1), "scores that are not finite")

    def _check_pair_values(self, mask: Tensor) -> None:
        active = self.active
        if bool(((self.column < 0) | (self.column >= self.label.shape[1])).any()):
            fail("slate.column", "out of range", f"columns from 0 to {self.label.shape[1] - 1}")
        there = (mask & (self.label > 0)).gather(1, self.column)
        self._reject((active & ~there).any(-1), "a pair with a padding or irrelevant column")
        assert self.pair is not None
        if _repeats(self.pair[active]):
            raise ValueError("slate.pair has duplicates; expected each pair once per slate")

    def _reject(self, bad: Tensor, problem: str) -> None:
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(f"slate row {row} (query {int(self.query[row])}) has {problem}")


def _repeats(values: Tensor) -> bool:
    ordered = values.sort().values
    return bool((ordered[1:] == ordered[:-1]).any())
