"""A table of what a loss remembers: one number per pair or per query, kept apart from the model's precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import check_int, fail

_TABLE = ("values", "range")  # what a table's state consists of
UNSEEN = -(2.0**120)
"""What a row holds before its first visit: finite, exact in float32 and float64, far from any value a row can take."""


def seen(rows: Tensor) -> Tensor:
    """Which of these rows have been visited.

    >>> seen(torch.tensor([0.0, UNSEEN]))
    tensor([ True, False])
    """
    return rows > UNSEEN


class MemoryTable(nn.Module):
    """One float per row of a contiguous range of rows; a buffer that moves, saves and loads with its loss.

    Rows are named by their number in the whole task, so a process that owns a part of the queries holds only that
    part (``rows``). ``.half()``, ``.bfloat16()`` and ``.to(dtype)`` leave the precision as it is. A state saved with
    one range loads into a table with another, as long as it covers it.

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
        first, last = (0, num_rows) if rows is None else _ends(f"{name.removesuffix('s')}_range", rows)
        if not 0 <= first <= last <= num_rows:
            fail(f"{name.removesuffix('s')}_range", (first, last), f"a range inside (0, {num_rows})")
        self.first, self.last, self.num_rows = int(first), int(last), int(num_rows)
        # One row more than asked for takes what padding writes, so that a step needs no branch and no read-back.
        self.register_buffer("values", torch.full((self.last - self.first + 1,), UNSEEN, dtype=dtype))

    def gather(self, rows: Tensor) -> Tensor:
        """Values of these rows, ``UNSEEN`` for −1 and for rows not yet visited; any shape."""
        return self.take(self.locate(rows)).view(rows.shape)

    def scatter(self, rows: Tensor, values: Tensor) -> None:
        """Write these rows; −1 is written nowhere, and a value that is not finite leaves its row as it was."""
        self.put(self.locate(rows), values)

    def take(self, places: Tensor) -> Tensor:
        """Values at these places, which :meth:`locate` gave."""
        return self.values.index_select(0, places)

    def put(self, places: Tensor, values: Tensor) -> None:
        """Write at these places, which :meth:`locate` gave, as :meth:`scatter` does."""
        flat = values.detach().reshape(-1).to(self.values.dtype)
        keep = torch.isfinite(flat) & (places < self.last - self.first)
        self.values.index_copy_(0, places, torch.where(keep, flat, self.take(places)))

    def locate(self, rows: Tensor) -> Tensor:
        """Where these rows lie, flat: padding in the extra row, and rows past the end past that one, so they raise."""
        flat = rows.reshape(-1)
        here = flat - self.first + (flat >= self.last)
        return torch.where(flat >= 0, here, torch.full_like(flat, self.last - self.first))

    # ---- for people

    def read(self, rows: Tensor | Sequence[int] | None = None) -> Tensor:
        """A copy of these rows, of all held here if not given; NaN for rows not yet visited."""
        values = self.values[:-1].clone() if rows is None else self.gather(self._owned(rows))
        return torch.where(seen(values), values, torch.full_like(values, torch.nan))

    def write(self, rows: Tensor | Sequence[int], values: Tensor | Sequence[float]) -> None:
        """Set these rows; refuses values that are not finite."""
        given = torch.as_tensor(values, device=self.values.device)
        if not bool(torch.isfinite(given).all()):
            fail("values", "not finite", "finite numbers")
        held = self._owned(rows)
        self.scatter(held, given.expand(held.shape))

    def reset(self, rows: Tensor | Sequence[int] | None = None) -> None:
        """Forget these rows, all if not given: the next visit is a first one."""
        if rows is None:
            self.values.fill_(UNSEEN)
        else:
            self.values.index_fill_(0, self.locate(self._owned(rows)), UNSEEN)

    def _owned(self, rows: Tensor | Sequence[int]) -> Tensor:
        rows = torch.as_tensor(rows, dtype=torch.int64, device=self.values.device)
        if rows.numel() and (int(rows.min()) < self.first or int(rows.max()) >= self.last):
            fail(
                "rows",
                (int(rows.min()), int(rows.max())),
                f"rows from {self.first} to {self.last - 1}, those held here",
            )
        return rows

    def extra_repr(self) -> str:
        """The range held and its type."""
        return f"rows {self.first}:{self.last}, {self.values.dtype}"

    # ---- for torch

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MemoryTable:
        probe = fn(self.values[:0])
        if probe.is_meta or self.values.is_meta:
            self.values = fn(self.values).to(self.values.dtype)
        else:
            self.values = self.values.to(probe.device)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[prefix + "values"] = self.values[:-1] if keep_vars else self.values[:-1].detach()
        destination[prefix + "range"] = torch.tensor([self.first, self.last, self.num_rows])

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        names = (prefix + "values", prefix + "range")
        missing = [name for name in names if name not in state_dict]
        if missing:
            missing_keys.extend(missing)
            return
        values, (first, last, total) = state_dict[names[0]], state_dict[names[1]].tolist()
        covers = first <= self.first and self.last <= last and values.shape == (last - first,)
        if total != self.num_rows or not covers:
            error_msgs.append(
                f"{prefix}values holds rows {first}:{last} of {total} (shape {list(values.shape)}); expected rows that "
                f"cover {self.first}:{self.last} of {self.num_rows}"
            )
            return
        with torch.no_grad():
            if self.values.is_meta:
                self.values = torch.full(self.values.shape, UNSEEN, dtype=self.values.dtype, device=values.device)
            self.values[:-1].copy_(values[self.first - first : self.last - first])


def merge_states(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """One ``state_dict`` from those of processes that own neighbouring ranges of queries, in any order.

    Tables are put together by their ranges, and so is what a faster loss keeps of its last step; how often it had to
    guard a row is added up. The number of steps has to be the same in all, as it is where processes take them together.

    >>> parts = [MemoryTable(5, (2, 5)), MemoryTable(5, (0, 2))]
    >>> merged = merge_states([part.state_dict() for part in parts])
    >>> merged["range"].tolist(), merged["values"].shape
    ([0, 5, 5], torch.Size([5]))
    """
    if not states:
        fail("states", [], "at least one state")
    merged = dict(states[0])
    for name in [key for key in merged if key == "range" or key.endswith(".range")]:
        column = name.removesuffix("range") + "values"
        parts = [(tuple(state[name].tolist()), state[column].cpu()) for state in _with(states, name)]
        parts.sort(key=lambda part: part[0])
        for (before, _), (after, _) in itertools.pairwise(parts):
            if before[1] != after[0]:
                fail(name, f"{before} followed by {after}", "ranges that meet without a gap or an overlap")
        merged[name] = torch.tensor([parts[0][0][0], parts[-1][0][1], parts[0][0][2]])
        merged[column] = torch.cat([values for _, values in parts])
    tables = {name.removesuffix("range") + word for name in merged if name.endswith("range") for word in _TABLE}
    for name in merged.keys() - tables:
        merged[name] = _joined(name, [state[name].cpu() for state in _with(states, name)])
    return merged


def _joined(name: str, parts: list[Tensor]) -> Tensor:
    """What is no table, by its name: counts of guards, rows of the last step, or what all processes have alike."""
    word = name.rpartition(".")[2]
    if word == "guarded":
        return torch.stack(parts).sum(0)
    if word.startswith("last_"):
        return torch.cat(parts)
    for other in parts[1:]:
        if not torch.equal(parts[0], other):
            fail(name, f"{parts[0].tolist()} and {other.tolist()}", "the same in all states")
    return parts[0]


def _ends(argument: str, rows: tuple[int, int]) -> tuple[int, int]:
    if len(rows) != 2:
        fail(argument, rows, "two whole numbers, first and last + 1")
    return check_int(f"{argument}[0]", rows[0], 0), check_int(f"{argument}[1]", rows[1], 0)


def _with(states: Sequence[dict[str, Tensor]], name: str) -> Sequence[dict[str, Tensor]]:
    for state in states:
        if name not in state:
            fail("states", f"one without {name!r}", "states of the same loss")
    return states
