r"""Adam for large embedding tables of which a step reads few rows.

Dense Adam updates every row at every step: without a gradient, m ← β₁m, v ← β₂v, and the weights by the remaining m.

* ``"exact"``: updates of a row are deferred until a slate reads it; then all missed steps are applied, with the
  arithmetic of dense Adam. Without weight decay, steps beyond about 200 missed ones are applied at once.
* ``"lazy"``: missed steps are skipped, as in torch's ``SparseAdam``; a different, cheaper algorithm.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from songrank import kernels
from songrank.core.checks import check_choice, fail
from songrank.core.processes import Processes
from songrank.core.slate import Slate
from songrank.training.optim.base import Adam

_NOTHING = 1e-9  # relative to the first missed step; smaller updates are below float32 precision


class _Table(NamedTuple):
    """The weight of an embedding, its moments, the gradient of deferred rows, and the last step of each row."""

    weight: Tensor
    moments: tuple[Tensor, Tensor]
    gradient: Tensor
    last: Tensor


@dataclass(frozen=True, eq=False)
class _Tables:
    """Tables of one width and parameter group whose rows have the same ids."""

    group: int
    tables: list[_Table]

    @cached_property
    def addresses(self) -> Tensor:
        """[T, 5]: addresses of the parts of each table."""
        found = [[part.data_ptr() for part in (table.weight, *table.moments, *table[2:])] for table in self.tables]
        return torch.tensor(found, device=self.tables[0].weight.device)


class RowAdam(Adam):
    """Adam with deferred row updates of some tables; all other parameters are updated at each step.

    A step is :meth:`catch_up` with the rows to read, forward, backward, :meth:`step`. Call :meth:`flush` before reading
    a table anywhere else. The state is that of ``torch.optim.Adam``, and loads into one.

    Args:
        groups: groups of parameters, as for ``torch.optim.Adam``, including the weights of the tables.
        rate: learning rate; call :meth:`flush` before changing it.
        tables: embeddings by kind of row, such as ``{"query": [...]}``; the model must read them by calling them.
        missed: ``"exact"`` or ``"lazy"``, see the module.
        options: options of ``torch.optim.Adam``, except ``amsgrad`` and ``maximize``.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        rate: float,
        tables: Mapping[str, Sequence[nn.Embedding]],
        *,
        missed: str = "exact",
        **options: Any,
    ) -> None:
        super().__init__(groups, rate, **options)
        self.missed = check_choice("missed", missed, ("exact", "lazy"))
        betas = self.param_groups[0]["betas"]
        if not 0.0 < betas[0] ** 2 < betas[1] < 1.0:
            fail("betas", betas, "0 < β₁² < β₂ < 1, so that m fades before v does")
        for name in ("amsgrad", "maximize"):
            if self.param_groups[0][name]:
                fail(name, True, "False")
        parameters = [weight for group in self.param_groups for weight in group["params"]]
        self._simple = all(weight.dtype == torch.float32 and weight.is_contiguous() for weight in parameters)
        self._now = torch.zeros((), dtype=torch.int64, device=parameters[0].device)
        self._corrections = _corrections(betas).to(parameters[0].device)
        self._limit = math.ceil(math.log(_NOTHING) / math.log(betas[0] / math.sqrt(betas[1])))
        self._embeddings = [table for some in tables.values() for table in some]
        self._sets = {kind: self._gather(some) for kind, some in tables.items()}
        self._rows: dict[str, list[Tensor]] = {kind: [] for kind in tables}

    def _gather(self, embeddings: Sequence[nn.Embedding]) -> list[_Tables]:
        sets: dict[tuple[int, int], _Tables] = {}
        for embedding in embeddings:
            weight = embedding.weight
            number = next(at for at, group in enumerate(self.param_groups) if any(p is weight for p in group["params"]))
            first, second, gradient = (torch.zeros_like(weight) for _ in range(3))
            self.state[weight] = {"exp_avg": first, "exp_avg_sq": second}
            last = torch.zeros(weight.shape[0], dtype=torch.int32, device=weight.device)
            found = sets.setdefault((number, weight.shape[1]), _Tables(number, []))
            found.tables.append(_Table(weight, (first, second), gradient, last))
        return list(sets.values())

    def _all_tables(self) -> list[_Table]:
        return [table for sets in self._sets.values() for one in sets for table in one.tables]

    def _by_kernel(self) -> bool:
        return self._simple and kernels.usable(self._now)

    def prepare(self, slate: Slate) -> None:
        """Catch up the rows of the slate's queries and items."""
        self.catch_up(query=slate.query, item=slate.item)

    @torch.no_grad()
    def catch_up(self, **rows: Tensor) -> None:
        """Apply the missed steps of these rows; the next :meth:`step` updates them."""
        for embedding in self._embeddings:
            embedding.sparse = True
        given = {kind: rows[kind].reshape(-1) for kind in self._sets}
        for kind, some in given.items():
            self._rows[kind].append(some)
        if self.missed == "exact":
            self._take_steps(given, apply=False)

    def row_parameters(self) -> Sequence[Tensor]:
        """The weights of the tables."""
        return [table.weight for table in self._embeddings]

    def share_rows(self, processes: Processes, own: Container[int]) -> None:
        """Also update the rows that other processes have caught up, of tables that all processes have."""
        for kind, some in self._rows.items():
            if not any(id(table.weight) in own for one in self._sets[kind] for table in one.tables):
                self._rows[kind] = [processes.gather(torch.cat(some).unique())]  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the rows passed to :meth:`catch_up` and all other parameters."""
        if closure is not None:
            fail("closure", "given", "none: rows are updated before the step")
        for table in self._all_tables():
            _keep(table.weight, table.gradient)
        self._now.add_(1)
        if self._by_kernel():
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        self._whole_step(weight, group)
        else:
            for state in self.state.values():
                state.setdefault("step", (self._now - 1).float())
            super().step()
        rows = {kind: some[0] if len(some) == 1 else torch.cat(some) for kind, some in self._rows.items() if some}
        self._take_steps(rows, apply=True)
        self._rows = {kind: [] for kind in self._sets}

    def _whole_step(self, weight: nn.Parameter, group: dict[str, Any]) -> None:
        from songrank.kernels.row_steps import whole_step

        state = self.state[weight]
        if not state:
            state |= {"exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
        state.pop("step", None)  # counted once for all
        moments, options = (state["exp_avg"], state["exp_avg_sq"]), _options(group)
        assert weight.grad is not None
        whole_step(weight, moments, weight.grad.contiguous(), self._now, self._corrections, **options)

    @torch.no_grad()
    def flush(self) -> None:
        """Apply all missed steps of all rows."""
        self._rows = {kind: [] for kind in self._sets}
        if self.missed == "exact":
            self._take_steps(dict.fromkeys(self._sets), apply=False)

    def _take_steps(self, rows: Mapping[str, Tensor | None], *, apply: bool) -> None:
        for kind, some in rows.items():
            for one in self._sets[kind]:
                group = self.param_groups[one.group]
                limit = 2**30 if group["weight_decay"] else self._limit
                options = {**_options(group), "limit": limit, "apply": apply, "lazy": self.missed == "lazy"}
                if self._by_kernel():
                    from songrank.kernels.row_steps import take_steps as launch

                    height, width = one.tables[0].weight.shape
                    wanted = height if some is None else some
                    launch(one.addresses, width, wanted, self._now, self._corrections, **options)
                else:
                    for table in one.tables:
                        take_steps(*table, some, self._now, self._corrections, **options)

    def state_dict(self) -> dict[str, Any]:
        """The state of Adam, after a flush."""
        self.flush()
        for state in self.state.values():  # the step count is kept once, also for replayed graphs
            state["step"] = self._now.float()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of Adam."""
        super().load_state_dict(state_dict)
        for weight, (first, second), _, last in self._all_tables():
            loaded = self.state[weight]
            for name, moment in (("exp_avg", first), ("exp_avg_sq", second)):
                moment.copy_(loaded[name]) if name in loaded else moment.zero_()
            self._now.copy_(loaded.get("step", torch.zeros(())))
            last.fill_(int(self._now))
            self.state[weight] = {"exp_avg": first, "exp_avg_sq": second}

    def close(self) -> None:
        """Apply all missed steps and restore the embeddings; :meth:`catch_up` starts again."""
        self.flush()
        for embedding in self._embeddings:
            embedding.sparse = False


def _keep(weight: Tensor, buffer: Tensor) -> None:
    if weight.grad is None:
        return
    if not weight.grad.is_sparse:
        raise RuntimeError(
            f"a table of shape {list(weight.shape)} has a dense gradient; read it only by calling its embedding, "
            "or leave it out of the model's row_tables()"
        )
    buffer.index_add_(0, weight.grad._indices()[0], weight.grad._values())
    weight.grad = None


def take_steps(
    weight: Tensor,
    moments: tuple[Tensor, Tensor],
    gradient: Tensor,
    last: Tensor,
    rows: Tensor | None,
    step: Tensor,
    corrections: Tensor,
    *,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
    limit: int,
    apply: bool,
    lazy: bool,
) -> None:
    """The torch version of :func:`songrank.kernels.row_steps.take_steps`, for one table; None means all rows."""
    now = int(step)
    rows = torch.arange(weight.shape[0], device=weight.device) if rows is None else rows.unique()  # type: ignore[no-untyped-call]
    rows = rows[last[rows] < now]
    if rows.numel() == 0:
        return
    w, m, v = (part.index_select(0, rows) for part in (weight, *moments))
    first = torch.full_like(rows, now - 1) if lazy else last.index_select(0, rows).long()
    end = now - 1 if apply else now
    stop = (first + limit).clamp(max=end)

    def one(t: Tensor, going: Tensor | None, g: Tensor) -> None:
        c1, c2 = corrections[:, t.clamp(max=corrections.shape[1] - 1)].unsqueeze(-1)
        g = torch.add(g, w, alpha=decay)
        new_m, new_v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        new_w = w - rate * c1 * new_m / (new_v.sqrt() * c2 + epsilon)
        for old, new in ((m, new_m), (v, new_v), (w, new_w)):
            old.copy_(new if going is None else torch.where(going.unsqueeze(-1), new, old))

    for missed in range(1, int((stop - first).max()) + 1):
        one(first + missed, first + missed <= stop, torch.zeros_like(w))
    rest = (end - stop).to(w.dtype).unsqueeze(-1)
    m.mul_(betas[0] ** rest)
    v.mul_(betas[1] ** rest)
    if apply:
        one(torch.full_like(rows, now), None, gradient.index_select(0, rows))
        gradient.index_fill_(0, rows, 0.0)
    for part, new in ((weight, w), (moments[0], m), (moments[1], v)):
        part.index_copy_(0, rows, new)
    last.index_fill_(0, rows, now)


def _options(group: dict[str, Any]) -> dict[str, Any]:
    rate, decay = float(group["lr"]), group["weight_decay"]
    return {"rate": rate, "betas": group["betas"], "epsilon": group["eps"], "decay": decay}


def _corrections(betas: tuple[float, float]) -> Tensor:
    """[2, entries]: 1/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ) for t = 0, 1, … until both are 1 in float32; 1 for t = 0."""
    entries = max(2, *(math.ceil(math.log(1e-9) / math.log(beta)) for beta in betas if beta > 0))
    t = torch.arange(entries, dtype=torch.float64)
    first, second = (-torch.expm1(t * math.log(beta)) if beta > 0 else torch.ones_like(t) for beta in betas)
    found = torch.stack([first.reciprocal(), second.rsqrt()])
    found[:, 0] = 1.0
    return found.float()
