"""The rows of a model's tables of queries that one of several processes has."""

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from songrank.core.processes import Processes
from songrank.models.base import RankingModel
from songrank.models.model_folder import DRAWS

_CHUNK = 1 << 22
"""Random numbers drawn at a time; a multiple of 16, since torch draws blocks of 16 normal numbers."""


@dataclass(frozen=True)
class OwnRows:
    """Embeddings of a model with one row per query, of which a process has the rows of its queries.

    Args:
        tables: names of the weights of these embeddings; none if all processes have the same weights.
        queries: the range of queries whose rows are here.
        total: number of queries of all processes.
    """

    tables: tuple[str, ...] = ()
    queries: tuple[int, int] = (0, 0)
    total: int = 0

    @contextmanager
    def whole(self, model: nn.Module, processes: Processes, *, changed: bool = False) -> Iterator[None]:
        """Inside the block, the embeddings of the first process have the rows of all processes.

        With ``changed``, each process has what the first one has made of its rows after the block.
        """
        held = {table: table.weight for table in self._embeddings(model)}
        for table, weight in held.items():
            found = processes.collect(weight.detach())
            if found is not None:
                table.weight, table.num_embeddings = nn.Parameter(found, weight.requires_grad), found.shape[0]
        try:
            yield
            for table, weight in held.items() if changed else ():
                processes.deal(table.weight.detach(), weight.detach())
        finally:
            for table, weight in held.items():
                table.weight, table.num_embeddings = weight, weight.shape[0]

    def _embeddings(self, model: nn.Module) -> list[nn.Embedding]:
        found = [model.get_submodule(name.rpartition(".")[0]) for name in self.tables]
        return [table for table in found if isinstance(table, nn.Embedding)]


NO_ROWS = OwnRows()


def build_own(
    build: Callable[[int], RankingModel], queries: tuple[int, int], total: int
) -> tuple[RankingModel, OwnRows]:
    """The model that ``build(number of queries)`` makes, with the rows of these queries only of its tables of queries.

    Initial values are those of the rows in the model of all queries, which is never in memory.

    >>> from songrank.models import MatrixFactorisation
    >>> _ = torch.manual_seed(0)
    >>> whole = MatrixFactorisation(num_queries=5, num_items=9)
    >>> _ = torch.manual_seed(0)
    >>> model, rows = build_own(lambda count: MatrixFactorisation(num_queries=count, num_items=9), (1, 4), 5)
    >>> rows.tables, torch.equal(model.query_factors.weight, whole.query_factors.weight[1:4])
    (('query_factors.weight',), True)
    """
    listed = _Listed()
    with torch.device("meta"), listed:
        whole = build(total)
    names = whole.capabilities.query_tables
    if not names:
        return build(total), NO_ROWS
    tables = {id(whole.get_parameter(name)) for name in names}
    numbers = {number for number, tensor in enumerate(listed.drawn) if id(tensor) in tables}
    with _OfRows(numbers, queries, total):
        model = build(queries[1] - queries[0])
    return model, OwnRows(names, queries, total)


class _Listed(TorchFunctionMode):
    """Lists the tensors whose values are drawn, without drawing."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in DRAWS:
            return func(*args, **(kwargs or {}))
        self.drawn.append(args[0] if args else kwargs["tensor"])
        return self.drawn[-1]


class _OfRows(TorchFunctionMode):
    """Draws the rows of a range where some tensors, given by the order of draws, are those of the range only."""

    def __init__(self, numbers: Set[int], rows: tuple[int, int], total: int) -> None:
        super().__init__()
        self.numbers, self.rows, self.total, self.count = numbers, rows, total, -1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in DRAWS:
            return func(*args, **kwargs)
        self.count += 1
        if self.count not in self.numbers:
            return func(*args, **kwargs)
        target = args[0] if args else kwargs["tensor"]
        more = {name: value for name, value in kwargs.items() if name != "tensor"}
        draw_rows(lambda part: func(part, *args[1:], **more), target.data, self.rows, self.total)
        return target


def draw_rows(draw: Callable[[Tensor], object], rows: Tensor, queries: tuple[int, int], total: int) -> None:
    """Fill the rows of these queries with what ``draw`` would write to them in a table of ``total`` rows.

    >>> table, rows = torch.empty(100, 3), torch.empty(7, 3)
    >>> for part, draw in ((table, table.normal_), (rows, None)):
    ...     _ = torch.manual_seed(0)
    ...     _ = draw() if draw else draw_rows(torch.Tensor.normal_, rows, (40, 47), 100)
    >>> torch.equal(table[40:47], rows)
    True
    """
    width = rows.shape[1]
    size, first, last, flat = total * width, queries[0] * width, queries[1] * width, rows.view(-1)
    at = 0
    while at < size:
        end = at + _CHUNK if size - at >= 2 * _CHUNK else size
        part = torch.empty(end - at, dtype=rows.dtype)
        draw(part)
        low, high = max(at, first), min(end, last)
        if low < high:
            flat[low - first : high - first] = part[low - at : high - at]
        at = end
