"""One mini-batch: the sampled sub-lists of a few queries, and what their full lists look like."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_shape, fail
from songrank.core.gains import Gain, check_gain, ideal_dcg


@dataclass(frozen=True, eq=False, kw_only=True)
class Slate:
    """B queries and L candidate columns; the flow's one type between sampler, model and loss. Frozen.

    Shapes and types are checked on construction; values only by :meth:`check` (it reads them back from the device).

    >>> slate = Slate.from_batch(labels=torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([7]))
    >>> slate.num_relevant, slate.list_size
    (tensor([2]), tensor([3]))
    """

    query: Tensor
    """[B] int64."""
    item: Tensor
    """[B, L] int64, or [1, L] where all rows share their candidates."""
    label: Tensor
    """[B, L] float, y ≥ 0."""
    mask: Tensor
    """[B, L] or [1, L] bool, False for padding."""
    pair: Tensor | None
    """[B, P] int64: row of each relevant pair in the losses' memory, −1 where there is none. None: pairs without
    identity, for losses without memory; each relevant item then counts as met for the first time."""
    column: Tensor = None  # type: ignore[assignment]
    """[B, P] int64: the column of each of these relevant items; the first P if not given."""
    list_size: Tensor
    """[B]: N_q, of the full list."""
    num_relevant: Tensor
    """[B]: N_q⁺, of the full list."""
    ideal_dcg: Tensor
    """[B]: Z_q of the full list, for this ``k`` and ``gain``."""
    k: int | None = None
    """The K of top-K NDCG; None for the whole list."""
    weight: Tensor | None = None
    """[B, L]: own sampling weights, summing to 1 over a row's columns; None for the strata's."""
    row_weight: Tensor | None = None
    """[B]: weight of each query in the batch's mean, 0 for rows that only fill up a batch."""
    gain: Gain = "exp2"
    """The gain that ``ideal_dcg`` was made with; losses use the same."""
    complete: bool = False
    """Whether ``column`` names every relevant item of the slate, so that a loss need not look elsewhere; False if you
    replace the labels by others."""
    whole: bool = False
    """Whether every row holds its whole list and nothing is masked: a mean over columns is then the mean over the list,
    and a loss need not look at ``mask``, which all rows share; False if you replace items or mask by others."""

    def rows(self, first: int, last: int) -> Self:
        """The slate of the queries from ``first`` to ``last``, which is not included; a view.

        >>> slate = Slate.from_batch(labels=torch.tensor([[2.0, 0.0], [0.0, 1.0]]), query=torch.tensor([7, 8]))
        >>> slate.rows(1, 2).query
        tensor([8])
        """
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        count = self.query.shape[0]
        cut: dict[str, Any] = {
            name: value[first:last]
            for name, value in parts.items()
            if isinstance(value, Tensor) and value.shape[0] == count and not (count == 1 and name in ("item", "mask"))
        }
        return replace(self, **cut)

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
            check_shape("slate.mask", self.mask, (1, columns), meaning="[1, L] where the list is whole")
        check_shape("slate.mask", self.mask, *shared, meaning="[B, L] or [1, L]")
        for name in ("list_size", "num_relevant", "ideal_dcg"):
            check_shape(f"slate.{name}", getattr(self, name), (rows,), meaning="[B]")
        if self.weight is not None:
            check_shape("slate.weight", self.weight, (rows, columns), meaning="[B, L]")
        if self.row_weight is not None:
            check_shape("slate.row_weight", self.row_weight, (rows,), meaning="[B]")
        if self.k is not None:
            check_int("slate.k", self.k)
        if self.mask.dtype != torch.bool:
            fail("slate.mask", self.mask.dtype, "type torch.bool", TypeError)
        if not self.label.is_floating_point():
            fail("slate.label", self.label.dtype, "a floating point type", TypeError)
        self._check_pairs(rows, columns)
        # Summing is four times as fast as any() on a CPU.
        self.__dict__["present"] = (self.mask.sum(-1) > 0).expand(rows)
        for name in ("query", "item", "pair", "column"):
            value = getattr(self, name)
            if value is not None and value.dtype != torch.int64:
                fail(f"slate.{name}", value.dtype, "type torch.int64", TypeError)

    def _check_pairs(self, rows: int, columns: int) -> None:
        if self.pair is not None:
            if not isinstance(self.pair, Tensor) or self.pair.dim() != 2 or self.pair.shape[0] != rows:
                fail("slate.pair", getattr(self.pair, "shape", self.pair), f"a tensor of shape [B, P] with B={rows}")
            if self.column is None and self.pair.shape[1] > columns:
                fail("slate.pair", self.pair.shape, f"at most L={columns} pairs a row where no column is given")
        if self.column is None:
            width = columns if self.pair is None else self.pair.shape[1]
            first = torch.arange(width, device=self.label.device).expand(rows, width)
            object.__setattr__(self, "column", first)
        elif self.pair is not None:
            check_shape("slate.column", self.column, tuple(self.pair.shape), meaning="[B, P], as slate.pair")

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
    ) -> Slate:
        """For your own loop: full lists, with their counts and ideal DCG taken from the labels.

        Args:
            labels: [B, L], y ≥ 0.
            query: [B], the query of each row.
            pair: [B, P], P ≤ L: a row of the loss's memory for the relevant item in each of the first P columns, −1
                where the column is not relevant. An item must have the same row whenever it is seen. Losses without
                memory do without.
            mask: [B, L], False for padding.
            k: the K of top-K NDCG, for ``KSONG``.
            gain: gain of a label.
            row_weight: [B], weight of each query.
            validate: check the values too, which reads them back from the device; turn off in a loop on a GPU.

        """
        if not isinstance(labels, Tensor):
            fail("labels", type(labels).__name__, "a tensor of shape [B, L]", TypeError)
        if labels.dim() != 2:
            fail("labels", labels.shape, "a tensor of shape [B, L]")
        values = labels if labels.is_floating_point() else labels.float()
        present = torch.ones_like(values, dtype=torch.bool)
        if mask is not None:
            check_shape("mask", mask, tuple(values.shape), (1, values.shape[1]), meaning="[B, L] or [1, L]")
            if mask.dtype != torch.bool:
                fail("mask", mask.dtype, "type torch.bool", TypeError)
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
        """[B] bool: rows that hold at least one candidate."""
        present: Tensor = self.__dict__["present"]
        return present

    @property
    def active(self) -> Tensor:
        """[B, P] bool: which entries of ``pair`` and ``column`` are relevant items to learn from."""
        if self.pair is not None:
            return self.pair >= 0
        there = self.mask.expand(self.label.shape) & (self.label > 0)
        return there.gather(1, self.column)

    @property
    def relevant_columns(self) -> Tensor | None:
        """[B, P]: the columns of all relevant items, −1 for entries without one; None where that is not known."""
        return torch.where(self.active, self.column, -1) if self.complete else None

    def to(self, device: torch.device | str) -> Slate:
        """The same slate on another device."""
        moved: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Tensor):
                moved[entry.name] = value.to(device)
        return replace(self, **moved)

    def check(self, scores: Tensor | None = None) -> None:
        """Check all values, and the scores if given; raises naming the query. Reads values back from the device."""
        mask = self.mask.expand(self.label.shape)
        present = self.rows_present
        labels = torch.where(mask, self.label, torch.zeros_like(self.label))
        self._refuse(~(torch.isfinite(labels) & (labels >= 0)).all(-1), "labels that are negative or not finite")
        relevant = (mask & (self.label > 0)).sum(-1)
        irrelevant = mask.sum(-1) - relevant
        size, total = self.list_size, self.num_relevant
        if self.whole:
            self._refuse(~mask.all(-1) | (size != mask.shape[1]), "columns that are masked or too few to be whole")
        self._refuse(total > size, "more relevant items (num_relevant) than list_size")
        if self.pair is not None:
            self._check_pair_values(mask)
        if self.weight is None:
            self._refuse(relevant > total, "more relevant columns than num_relevant")
            self._refuse(irrelevant > size - total, "more irrelevant columns than list_size − num_relevant")
            used = present & self.active.any(-1)
            self._refuse(
                used & (total > 1) & (relevant < 2),
                "two relevant items or more, of which the slate samples fewer than two",
            )
            self._refuse(used & (size > total) & (irrelevant < 1), "irrelevant items, of which the slate samples none")
        else:
            off = (torch.where(mask, self.weight, torch.zeros_like(self.weight)).sum(-1) - 1.0).abs() > 1e-3
            self._refuse(present & off, "sampling weights that do not sum to 1")
        sound = torch.isfinite(self.ideal_dcg) & (self.ideal_dcg > 0)
        self._refuse(self.active.any(-1) & ~sound, "relevant items but an ideal_dcg that is not positive and finite")
        if self.row_weight is not None:
            weighed = torch.isfinite(self.row_weight) & (self.row_weight >= 0)
            self._refuse(~weighed, "a row_weight that is negative or not finite")
        queries = self.query[present]
        if _repeats(queries):
            raise ValueError("slate.query names a query twice; expected each query once in a slate")
        if scores is not None:
            finite = torch.isfinite(torch.where(mask, scores, torch.zeros_like(scores)))
            self._refuse(~finite.all(-1), "scores that are not finite")

    def _check_pair_values(self, mask: Tensor) -> None:
        active = self.active
        if bool(((self.column < 0) | (self.column >= self.label.shape[1])).any()):
            fail("slate.column", "outside the columns", f"columns from 0 to {self.label.shape[1] - 1}")
        there = (mask & (self.label > 0)).gather(1, self.column)
        self._refuse((active & ~there).any(-1), "a pair whose column is padding or irrelevant")
        assert self.pair is not None
        rows = self.pair[active]
        if _repeats(rows):
            raise ValueError("slate.pair names a row twice; expected each pair once in a slate")

    def _refuse(self, bad: Tensor, problem: str) -> None:
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(f"slate row {row} (query {int(self.query[row])}) has {problem}")


def _repeats(values: Tensor) -> bool:
    ordered = values.sort().values
    return bool((ordered[1:] == ordered[:-1]).any())
