"""The step as captured CUDA graphs for slates of few shapes, those of packed histories."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.sampling import SequenceSampler
from songrank.sampling.sequence_sampler import Plan, PlanShape
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.trainer.step import PlainStep, StepInParts

EAGER_STEPS = 3
"""Steps before a capture: libraries choose kernels, and the optimiser creates its state."""
_MOST_GRAPHS = 24


@dataclass(eq=False)
class _ShapeGraph:
    """A captured step for slates of one shape."""

    numbers: Tensor
    graph: torch.cuda.CUDAGraph
    last: tuple[Tensor, Slate]


class CapturedShapes(StepInParts):
    """Captured steps for slates of few shapes: one graph for each shape that occurs often.

    The CPU plans a batch while the device computes the one before it. Batches that exceed ``stage.at_once`` rows are
    computed in parts, eagerly.
    """

    def __init__(self, *parts: Any, warn: Callable[[str], None]) -> None:
        super().__init__(*parts)
        assert isinstance(self.stage.sampler, SequenceSampler)
        self.warn, self.sampler = warn, self.stage.sampler
        self.seen: dict[PlanShape, int] = {}
        self.graphs: dict[PlanShape, _ShapeGraph] = {}
        self.pool: Any = None
        self.rate = 0.0
        self.possible = self.adapter.relevance.device.type == "cuda"

    @property
    def kind(self) -> str:
        """How a step runs, for ``run.json``."""
        return "captured" if self.possible else "plain"

    def epoch(self) -> Iterator[None]:
        """Run the remaining steps of the sampler's epoch, one at a time."""
        sampler = self.sampler
        for left in range(sampler.batches_left, 0, -1):
            plan = sampler.plan()
            if self.stage.at_once is not None and plan.rows > self.stage.at_once:
                self.last = None
                with side_stream() if self.possible else nullcontext():
                    self._step(last=left == 1)
            else:
                self._whole(plan)
            sampler.advance()
            yield

    def objective(self) -> float:
        """The readable value of the loss for the epoch's last batch."""
        return PlainStep.objective(self) if self.last is not None else super().objective()

    def _whole(self, plan: Plan) -> None:
        rate, shape = self.optimiser.param_groups[0]["lr"], plan.shape
        if rate != self.rate:
            self.graphs.clear()
            self.rate, self.pool = rate, None  # a pool ends with the last of its graphs
        seen = self.seen[shape] = self.seen.get(shape, 0) + 1
        found = self.graphs.get(shape)
        if found is None and self.possible and seen > EAGER_STEPS and len(self.graphs) < _MOST_GRAPHS:
            found = self._capture(plan)
        if found is not None:
            found.numbers.copy_(plan.numbers, non_blocking=True)
            found.graph.replay()
            self.last = found.last
            return
        with side_stream() if self.possible else nullcontext():
            self(self.sampler.expanded(plan))

    def _capture(self, plan: Plan) -> _ShapeGraph | None:
        numbers = plan.numbers.to(self.adapter.relevance.device)
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()  # graphs are replayed one at a time, and share their memory

        def run() -> None:
            slate = self.sampler.expand(plan.shape, numbers)
            self.last = self.compute(slate), slate

        graph = _captured(run, self.optimiser, self.pool)
        if isinstance(graph, str):
            what = f"the {self.stage.name} step cannot be captured as a CUDA graph ({graph})"
            self.warn(f"{what}; using the eager fallback")
            self.possible = False
            return None
        assert self.last is not None
        found = self.graphs[plan.shape] = _ShapeGraph(numbers, graph, self.last)
        return found


@contextmanager
def side_stream() -> Iterator[None]:
    """Run eager steps on a stream of their own, as a capture needs."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    outer = torch.cuda.current_stream()
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)


def _captured(run: Callable[[], None], optimiser: TrainingOptimiser, pool: Any = None) -> torch.cuda.CUDAGraph | str:
    """The graph of a step, or the reason why it cannot be captured."""
    optimiser.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    numbers = generator.clone_state()
    try:
        with torch.cuda.graph(graph, pool=pool):
            run()
    except RuntimeError as error:
        torch.cuda.synchronize()
        generator.graphsafe_set_state(numbers)  # the current state waits for the end of the capture
        return str(error).splitlines()[0]
    return graph
