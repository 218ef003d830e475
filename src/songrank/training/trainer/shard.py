"""The part of a training run that one of several processes has: a range of queries, and their rows of all tables.

Every process visits the same batches, and computes the rows of its own queries. Per step, the gradients of the
parameters that all processes share are summed; rows of tables of queries belong to one process each.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from songrank.core.errors import NotFiniteError, UserError
from songrank.core.processes import Processes, balanced_ranges
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.core.text import counted
from songrank.metrics import Evaluation
from songrank.metrics.evaluation import gather_evaluation
from songrank.training.trainer.decisions import Decisions
from songrank.training.trainer.own_rows import OwnRows

if TYPE_CHECKING:
    from songrank.training.optim.base import TrainingOptimiser


def query_ranges(sizes: Tensor, processes: Processes) -> list[tuple[int, int]]:
    """The contiguous range of queries of each process, balanced by ``sizes``; none is empty.

    >>> query_ranges(torch.tensor([9, 1, 1]), Processes(0, 3))
    [(0, 1), (1, 2), (2, 3)]
    """
    count, world = sizes.shape[0], processes.world
    if count < world:
        raise UserError(f"{counted(count, 'queries')} cannot be divided among {world} processes; use fewer processes")
    cuts = [0]
    for number, (_, end) in enumerate(balanced_ranges(sizes.cpu(), world)[:-1], 1):
        cuts.append(min(max(end, cuts[-1] + 1), count - world + number))
    return list(pairwise([*cuts, count]))


def join_shards(relevance: Relevance, processes: Processes) -> Relevance:
    """The shard of this process with pairs numbered after those of earlier processes, and the sizes of all shards."""
    counts = processes.gather(torch.tensor([relevance.item.shape[0]])).tolist()
    first = sum(counts[: processes.rank])
    return replace(
        relevance,
        pair_range=(first, first + counts[processes.rank]),
        num_pairs=sum(counts),
        max_relevant=int(processes.largest(relevance.max_relevant)),
        max_taken=int(processes.largest(relevance.max_taken)),
        max_span=int(processes.largest(relevance.max_span)),
    )


def gathered(evaluate: Callable[[], Evaluation], processes: Processes) -> Evaluation:
    """The evaluation of all processes' queries, in their order; a score that is NaN on one raises on all."""
    if processes.world == 1:
        return evaluate()
    own, finite = None, True
    with processes.agreed():
        try:
            own = evaluate()
        except NotFiniteError:
            finite = False
    if not processes.all(finite):
        raise NotFiniteError("scores are NaN or infinite")
    return gather_evaluation(own, processes)


class Reduction:
    """Completes the gradients of a step: sums those of shared parameters over the processes, by one all-reduce.

    The gradients are of a sum over rows; they are divided by the weight of the rows of all processes. A parameter
    without a gradient on any process has none.

    Args:
        processes: the processes of the run.
        model: the model.
        rows: its embeddings with rows of this process only.
    """

    def __init__(self, processes: Processes, model: nn.Module, rows: OwnRows) -> None:
        self.processes, self.model, self.rows = processes, model, rows
        self.own = {id(model.get_parameter(name)) for name in rows.tables}
        self.decisions = Decisions()
        self._present: list[bool] = []  # of each shared leaf: whether any process had a gradient so far
        self._recording = False
        self.bytes = 0
        """Bytes of the gradients that the last step reduced."""

    def begin(self) -> None:
        """Start a stage."""
        self.decisions, self._present = Decisions(), []

    def recordable(self, optimiser: "TrainingOptimiser") -> bool:
        """Whether a CUDA graph can have the sum: gradients of rows that processes share have no fixed size."""
        own_rows = all(id(parameter) in self.own for parameter in optimiser.row_parameters())
        return self.processes.recordable and own_rows

    @contextmanager
    def recording(self, device: torch.device) -> Iterator[None]:
        """In the block, a step is recorded in a CUDA graph after others that were not: the host reads nothing.

        Weights without a gradient are those of the previous steps.
        """
        self.decisions.keep_on(device)
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def read(self, slate: Slate) -> Slate:
        """The slate with queries as they are numbered in the model's embeddings."""
        first = self.rows.queries[0]
        return replace(slate, query=slate.query - first) if first else slate

    def shared(self) -> list[nn.Parameter]:
        """The parameters that all processes have."""
        return [parameter for parameter in self.model.parameters() if id(parameter) not in self.own]

    @torch.no_grad()
    def __call__(self, optimiser: "TrainingOptimiser", total: Tensor, weight: Tensor) -> Tensor:
        """The mean over all rows of ``total``, a sum over rows here of this ``weight``; gradients become means."""
        leaves = [
            (leaf, id(parameter) in self.own)
            for group in optimiser.param_groups
            for parameter in group["params"]
            for leaf in optimiser.leaves(parameter)
        ]
        shared = [leaf for leaf, own in leaves if not own]
        sparse = [leaf for leaf in shared if leaf.grad is not None and leaf.grad.is_sparse]
        dense = [leaf for leaf in shared if leaf.grad is None or not leaf.grad.is_sparse]
        sums = self._sums(dense, total, weight)
        divisor = torch.where(sums[1] > 0, sums[1], torch.ones_like(sums[1]))
        if sparse:
            optimiser.share_rows(self.processes, self.own)
        for leaf in sparse:
            leaf.grad = self._gathered(leaf)
        for leaf, _ in leaves:
            if leaf.grad is not None:
                values = leaf.grad._values() if leaf.grad.is_sparse else leaf.grad
                values.div_(divisor.to(values))
        return sums[0] / divisor

    def _sums(self, leaves: list[Tensor], total: Tensor, weight: Tensor) -> Tensor:
        """The sums of ``total`` and ``weight``; the gradients of these leaves become sums."""
        kind = max((leaf.dtype for leaf in leaves), key=lambda dtype: dtype.itemsize, default=torch.float32)
        present = [leaf.grad is not None for leaf in leaves]
        if self._recording:
            if any(there and not before for there, before in zip(present, self._present, strict=True)):
                raise RuntimeError("a weight has a gradient in some steps only")
            given = torch.cat([self.decisions.given.to(kind), total.new_zeros(len(leaves), dtype=kind)])
        else:
            given = torch.tensor([*self.decisions.here, *present], dtype=kind, device=total.device)
        head = torch.cat([torch.stack([total, weight]).to(kind), given])
        gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
        flat = self.processes.add(torch.cat([head, *(gradient.reshape(-1).to(kind) for gradient in gradients)]))
        if self._recording:
            self.decisions.answered(flat[2:4])
            found = self._present
        else:
            answers = (flat[2 : head.shape[0]] > 0).tolist()
            self.decisions.decide(answers[:2])
            found, before = answers[2:], self._present or [False] * len(leaves)
            self._present = [now or then for now, then in zip(found, before, strict=True)]
        parts = torch.split(flat[head.shape[0] :], [leaf.numel() for leaf in leaves])
        self.bytes = 0
        for leaf, part, there in zip(leaves, parts, found, strict=True):
            leaf.grad = part.view(leaf.shape).to(leaf.dtype) if there else None
            self.bytes += leaf.numel() * leaf.element_size() if there else 0
        return flat[:2]

    def _gathered(self, leaf: Tensor) -> Tensor:
        """The sum over processes of a sparse gradient of rows."""
        assert leaf.grad is not None
        own = leaf.grad.coalesce()
        rows, values = self.processes.gather(own._indices()[0]), self.processes.gather(own._values())
        self.bytes += values.numel() * values.element_size() + rows.numel() * rows.element_size()
        return torch.sparse_coo_tensor(rows.unsqueeze(0), values, leaf.shape, check_invariants=False)

    def mean(self, total: Tensor, weight: Tensor) -> Tensor:
        """The mean over the rows of all processes of ``total``, a sum over this process's rows of this weight."""
        found = self.processes.add(torch.stack([total, weight.to(total)]))
        return found[0] / torch.where(found[1] > 0, found[1], torch.ones_like(found[1]))

    def clip(self, most: float) -> None:
        """Limit the norm of all gradients, those of all processes' rows included."""
        own = [p.grad for p in self.model.parameters() if p.grad is not None and id(p) in self.own]
        shared = [p.grad for p in self.model.parameters() if p.grad is not None and id(p) not in self.own]
        squares = [torch.nn.utils.get_total_norm(some).double().square().reshape(1) for some in (own, shared) if some]
        if self.own:
            total = self.processes.add(squares[0] if own else squares[0].new_zeros(1))
            squares = [total, squares[-1]]
        norm = torch.cat(squares).sum().sqrt().to(shared[0].dtype)
        torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), most, norm)

    def check_equal(self) -> bool:
        """Whether shared weights are bit-equal on all processes."""
        words = [parameter.detach().reshape(-1).view(torch.int16) for parameter in self.shared()]
        return self.processes.same(sum(int(some.sum(dtype=torch.int64)) for some in words))
