"""Memory of the losses, one row per pair or query, and its update rules."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import check_int, fail

__all__ = ["ROUNDING", "UNSEEN", "MemoryTable", "log_moving_average", "log_msvr", "merge_states", "moving_average"]
__all__ += ["msvr", "msvr_beta", "seen"]

UNSEEN = -(2.0**120)
"""Value of a row before its first visit: finite, exact in float32 and float64, far below any other value."""


ROUNDING = 1e-3
"""Relative to a guard's floor: values this close to it are lifted but not counted."""


def seen(rows: Tensor) -> Tensor:
    """Whether each row has been visited.

    >>> seen(torch.tensor([0.0, UNSEEN]))
    tensor([ True, False])
    """
    return rows > UNSEEN


class MemoryTable(nn.Module):
    """One float per row of a contiguous range; a buffer that is moved, saved and loaded with its loss.

    Row ids are those of the whole task; a process with a shard of the queries holds only the range ``rows``.
    ``.half()``, ``.bfloat16()`` and ``.to(dtype)`` do not change the precision. A state can be loaded into any range
    that it covers.

    >>> table = MemoryTable(4)
    >>> table.write(torch.tensor([1, 3]), torch.tensor([0.5, 2.0]))
    >>> table.read()
    tensor([   nan, 0.5000,    nan, 2.0000])
    """

    values: Tensor

    def __init__(
        self,
        num_rows: int,
        rows: tuple[int, int] | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        name: str = "rows",
    ) -> None:
        super().__init__()
        check_int(f"num_{name}", num_rows, 0)
        if dtype not in (torch.float32, torch.float64):
            fail("dtype", dtype, "torch.float32 or torch.float64")
        argument = f"{name.removesuffix('s')}_range"
        first, last = (0, num_rows) if rows is None else _ends(argument, rows)
        if not 0 <= first <= last <= num_rows:
            fail(argument, (first, last), f"a range within (0, {num_rows})")
        self.first, self.last, self.num_rows = int(first), int(last), int(num_rows)
        self.size_argument = f"num_{name}"
        # One extra row receives the writes of padding, so a step needs no branch and no host transfer.
        self.register_buffer("values", torch.full((self.last - self.first + 1,), UNSEEN, dtype=dtype))

    def gather(self, rows: Tensor) -> Tensor:
        """Values of these rows, of any shape; ``UNSEEN`` for −1 and unvisited rows."""
        return self.take(self.locate(rows)).view(rows.shape)

    def scatter(self, rows: Tensor, values: Tensor) -> None:
        """Write these rows, except −1 and values that are not finite."""
        self.put(self.locate(rows), values)

    def take(self, places: Tensor) -> Tensor:
        """Values at positions of :meth:`locate`."""
        try:
            return self.values.index_select(0, places)
        except IndexError:  # on a CPU; a GPU reports a failed assertion
            held = f"all ids below {self.size_argument}={self.num_rows}"
            if (self.first, self.last) != (0, self.num_rows):
                held = f"ids from {self.first} to {self.last - 1}, the range held here"
            place = int(places.max() if int(places.max()) >= self.values.shape[0] else places.min())
            row = place + self.first - (place > self.last - self.first)
            raise IndexError(f"row id {row} of the slate is not in the memory; expected {held}") from None

    def put(self, places: Tensor, values: Tensor) -> None:
        """:meth:`scatter` at positions of :meth:`locate`."""
        flat = values.detach().reshape(-1).to(self.values.dtype)
        keep = torch.isfinite(flat) & (places < self.last - self.first)
        self.values.index_copy_(0, places, torch.where(keep, flat, self.take(places)))

    def locate(self, rows: Tensor) -> Tensor:
        """Flat positions of these rows: padding in the extra row, rows past the end beyond it, so that they raise."""
        flat = rows.reshape(-1)
        here = flat - self.first + (flat >= self.last)
        return torch.where(flat >= 0, here, torch.full_like(flat, self.last - self.first))

    def read(self, rows: Tensor | Sequence[int] | None = None) -> Tensor:
        """A copy of these rows, by default all rows held here; NaN for unvisited rows."""
        values = self.values[:-1].clone() if rows is None else self.gather(self._owned(rows))
        return torch.where(seen(values), values, torch.full_like(values, torch.nan))

    def write(self, rows: Tensor | Sequence[int], values: Tensor | Sequence[float]) -> None:
        """Set these rows; raises for values that are not finite."""
        given = torch.as_tensor(values, device=self.values.device)
        if not bool(torch.isfinite(given).all()):
            fail("values", "not finite", "finite values")
        held = self._owned(rows)
        self.scatter(held, given.expand(held.shape))

    def reset(self, rows: Tensor | Sequence[int] | None = None) -> None:
        """Mark these rows, by default all, as unvisited."""
        if rows is None:
            self.values.fill_(UNSEEN)
        else:
            self.values.index_fill_(0, self.locate(self._owned(rows)), UNSEEN)

    def _owned(self, rows: Tensor | Sequence[int]) -> Tensor:
        rows = torch.as_tensor(rows, dtype=torch.int64, device=self.values.device)
        if rows.numel() and (int(rows.min()) < self.first or int(rows.max()) >= self.last):
            ends = int(rows.min()), int(rows.max())
            fail("rows", ends, f"row ids from {self.first} to {self.last - 1}, those held here")
        return rows

    def extra_repr(self) -> str:
        """The range held and its type."""
        return f"rows {self.first}:{self.last}, {self.values.dtype}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "MemoryTable":
        probe = fn(self.values[:0])
        if probe.is_meta or self.values.is_meta:
            self.values = fn(self.values).to(self.values.dtype)
        else:
            self.values = self.values.to(probe.device)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[prefix + "values"] = self.values[:-1] if keep_vars else self.values[:-1].detach()
        destination[prefix + "range"] = torch.tensor([self.first, self.last, self.num_rows])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        _, _, missing_keys, _, error_msgs = rest
        missing = [name for name in (prefix + "values", prefix + "range") if name not in state_dict]
        if missing:
            missing_keys.extend(missing)
            return
        values, (first, last, total) = state_dict[prefix + "values"], state_dict[prefix + "range"].tolist()
        covers = first <= self.first and self.last <= last and values.shape == (last - first,)
        if total != self.num_rows or not covers:
            error_msgs.append(
                f"{prefix}values has rows {first}:{last} of {total} (shape {list(values.shape)}); expected rows that "
                f"cover {self.first}:{self.last} of {self.num_rows}"
            )
            return
        with torch.no_grad():
            if self.values.is_meta:
                self.values = torch.full(self.values.shape, UNSEEN, dtype=self.values.dtype, device=values.device)
            self.values[:-1].copy_(values[self.first - first : self.last - first])


def merge_states(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Merge the ``state_dict`` of processes with adjacent ranges of queries, in any order, into one.

    Tables, and the last step of a faster loss, are concatenated by range; counts of guards are summed. The number of
    steps must be the same in all states.

    >>> parts = [MemoryTable(5, (2, 5)), MemoryTable(5, (0, 2))]
    >>> merged = merge_states([part.state_dict() for part in parts])
    >>> merged["range"].tolist(), merged["values"].shape
    ([0, 5, 5], torch.Size([5]))
    """
    if not states:
        fail("states", [], "at least one state")
    for name in states[0]:
        if any(name not in state for state in states):
            fail("states", f"a list with a state without {name!r}", "states of the same loss")
    return {name: _joined(name, states) for name in states[0]}


def _joined(name: str, states: Sequence[dict[str, Tensor]]) -> Tensor:
    """One entry of the merged state, by its name."""
    parts, word = [state[name].cpu() for state in states], name.rpartition(".")[2]
    if word == "range":
        held = sorted(tuple(part.tolist()) for part in parts)
        for before, after in itertools.pairwise(held):
            if before[1] != after[0]:
                fail(name, f"{before} followed by {after}", "adjacent ranges without gap or overlap")
        return torch.tensor([held[0][0], held[-1][1], held[0][2]])
    if word == "values":
        ranges = [tuple(state[name.removesuffix(word) + "range"].tolist()) for state in states]
        return torch.cat([parts[at] for at in sorted(range(len(parts)), key=ranges.__getitem__)])
    if word == "guarded":
        return torch.stack(parts).sum(0)
    if word.startswith("last_"):
        return torch.cat(parts)
    for other in parts[1:]:
        if not torch.equal(parts[0], other):
            fail(name, f"{parts[0].tolist()} and {other.tolist()}", "the same value in all states")
    return parts[0]


def _ends(argument: str, rows: tuple[int, int]) -> tuple[int, int]:
    if len(rows) != 2:
        fail(argument, rows, "two whole numbers, first and last + 1")
    return check_int(f"{argument}[0]", rows[0], 0), check_int(f"{argument}[1]", rows[1], 0)


def moving_average(rows: Tensor, estimate: Tensor, gamma: float) -> Tensor:
    """(1 − γ)·row + γ·estimate; the estimate itself on a row's first visit.

    >>> from songrank.losses.memory import UNSEEN
    >>> moving_average(torch.tensor([1.0, UNSEEN]), torch.tensor([2.0, 2.0]), gamma=0.1)
    tensor([1.1000, 2.0000])
    """
    return torch.where(seen(rows), (1.0 - gamma) * rows + gamma * estimate, estimate)


def log_moving_average(log_rows: Tensor, log_estimate: Tensor, gamma: float) -> Tensor:
    """:func:`moving_average` of rows that hold log u, without leaving log space.

    >>> log_moving_average(torch.tensor([0.0]), torch.tensor([0.0]), gamma=0.1)
    tensor([-7.4506e-09])
    """
    if gamma == 1.0:
        return log_estimate
    kept = torch.logaddexp(log_rows + math.log1p(-gamma), log_estimate + math.log(gamma))
    return torch.where(seen(log_rows), kept, log_estimate)


def msvr(rows: Tensor, estimate: Tensor, change: Tensor | float, gamma: Tensor | float, beta: Tensor | float) -> Tensor:
    """(1 − γ)·row + γ·estimate + β·change; the estimate itself on a row's first visit (the paper's last section).

    γ and β are scalars or one per row. One update covers four estimators:

    ==============  ==================================  ========================================================
    estimator       β                                   change
    ==============  ==================================  ========================================================
    moving average  0                                   not used
    STORM           1 − γ                               ĝ(w_t) − ĝ(w_{t−1}), both on this step's slate
    MSVR            1 − γ + (1 − π) / (π (1 − γ))       the same
    MSVR-SP         the same                            ∇ĝ(w_t) · (w_t − w_{t−1}), its first order
    ==============  ==================================  ========================================================

    π is the probability that a step draws the row. A row drawn every 1/π steps misses the model's changes in between;
    MSVR's β, about 1/π for small π, scales up the last change to compensate. The result is not a convex combination
    and can leave the range of the estimates: the caller clamps it.

    >>> from songrank.losses.memory import UNSEEN
    >>> rows, estimate = torch.tensor([1.0, UNSEEN]), torch.tensor([2.0, 2.0])
    >>> msvr(rows, estimate, change=torch.tensor([0.5, 0.5]), gamma=0.1, beta=0.9)
    tensor([1.5500, 2.0000])
    """
    return torch.where(seen(rows), (1.0 - gamma) * rows + gamma * estimate + beta * change, estimate)


def log_msvr(
    log_rows: Tensor,
    log_estimate: Tensor,
    log_before: Tensor | None,
    log_change: Tensor | None,
    gamma: Tensor | float,
    beta: Tensor | float,
    log_floor: Tensor,
) -> tuple[Tensor, Tensor]:
    """:func:`msvr` of rows that hold ln u, at least ``log_floor``, and which rows were below it.

    The change is ĝ − exp(``log_before``), or ĝ · ``log_change``, the first-order change of ln ĝ. Sums are taken
    relative to the largest term, so nothing overflows.

    >>> from songrank.losses.memory import UNSEEN
    >>> rows, estimate = torch.tensor([0.0, UNSEEN]), torch.tensor([2.0, 2.0]).log()
    >>> found, low = log_msvr(rows, estimate, torch.tensor([1.5, 1.5]).log(), None, 0.1, 0.9, torch.tensor(-9.0))
    >>> found.exp(), low
    (tensor([1.5500, 2.0000]), tensor([False, False]))
    """
    parts = [torch.where(seen(log_rows), log_rows, log_estimate), log_estimate]
    if log_before is not None:
        parts.append(log_before)
    top = torch.maximum(torch.stack(parts).amax(0), log_floor)
    row, estimate, *before = (torch.exp(part - top) for part in parts)
    change = estimate - before[0] if before else 0.0 if log_change is None else estimate * log_change
    value = (1.0 - gamma) * row + gamma * estimate + beta * change
    floor = torch.exp(log_floor - top)
    low = seen(log_rows) & (value < floor * (1.0 - ROUNDING))
    moved = torch.maximum(
        torch.log(torch.maximum(value, floor).clamp_min(torch.finfo(value.dtype).tiny)) + top, log_floor
    )
    return torch.where(seen(log_rows), moved, torch.maximum(log_estimate, log_floor)), low


def msvr_beta(gamma: Tensor | float, share: Tensor | float) -> Tensor | float:
    """β = 1 − γ + (1 − π) / (π (1 − γ)), for rows drawn with probability ``share`` = π per step.

    >>> msvr_beta(0.5, 1.0), msvr_beta(0.5, 0.01)
    (0.5, 198.5)
    """
    return 1.0 - gamma + (1.0 - share) / (share * (1.0 - gamma))
