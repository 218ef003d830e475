"""The step as a captured CUDA graph: the same operations in the same order, without the overhead of Python.

Slates of a catalogue are drawn inside the graph; those of lists are copied into it; for those of histories see
``captured_shapes``. Evaluation and checkpoints are outside. A new learning rate captures the step again.

Several processes with NCCL capture the sum of their gradients too. Each pads its rows of a batch to a fixed number, and
all of them capture, replay or run eagerly in the same steps.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from songrank import kernels
from songrank.core.processes import LostProcessError
from songrank.core.slate import Slate
from songrank.losses.base import RankingLoss
from songrank.sampling import drawing
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.captured_shapes import EAGER_STEPS, CapturedShapes, side_stream
from songrank.training.trainer.shard import Reduction
from songrank.training.trainer.stages import Stage
from songrank.training.trainer.step import PlainStep, StepInParts

_WORTH_COMPILING = 50_000
"""Minimum steps of a stage to compile the loss, which takes 5 to 15 seconds and saves 0.2 ms per step."""


class CapturedStep(PlainStep):
    """A captured step; the first steps and slates of other shapes run eagerly."""

    def __init__(self, *parts: Any, warn: Callable[[str], None]) -> None:
        super().__init__(*parts)
        self.warn = warn
        self.plain_steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.slate: Slate | None = None
        self.rate = 0.0
        self.possible = True
        self.fits = True  # whether the slates of the epoch have one shape
        self.captured: tuple[Tensor, Slate] | None = None
        sampler = self.stage.sampler
        pads = sampler.partial == "pad" or self.reduction is not None
        self.drawing = drawing.Drawing(sampler) if drawing.serves(sampler) and pads else None
        worth_it = self.stage.epochs * len(sampler) >= _WORTH_COMPILING and self.stage.loss.traits.compiles
        ordered = torch.are_deterministic_algorithms_enabled()  # Inductor's code has no fixed summation order
        if worth_it and not ordered and kernels.installed():
            self.loss = _compiled(self.stage.loss, warn)

    @property
    def kind(self) -> str:
        """How a step runs."""
        return "captured" if self.possible else "plain"

    def close(self) -> None:
        """Destroy the graph: NCCL waits for all graphs with its sums before it ends."""
        if self.graph is not None:
            self.graph.reset()
            self.graph = None

    def epoch(self) -> Iterator[None]:
        """Run the remaining steps of the sampler's epoch, one at a time."""
        sampler = self.stage.sampler
        if self.reduction is not None:
            self.fits = sampler.padded = self.reduction.processes.all(sampler.fits(sampler.epoch))
            sampler.muted = False
        if self.drawing is None or not self.fits:
            yield from super().epoch()
            return
        self.drawing.begin()
        for _ in range(sampler.batches_left):
            self._step(self.drawing.next)
            sampler.advance()
            yield

    def __call__(self, slate: Slate) -> None:
        """Run one step."""
        if not self.fits:
            super().__call__(slate)
            return
        given = _tensors(slate)
        if self.slate is None:
            copies: dict[str, Any] = {name: value.clone() for name, value in given.items()}
            self.slate = replace(slate, **copies)
        else:
            own = _tensors(self.slate)
            if {name: value.shape for name, value in given.items()} != {name: own[name].shape for name in own}:
                super().__call__(slate)
                return
            for name, value in given.items():
                own[name].copy_(value)
        held = self.slate
        self._step(lambda: replace(held))  # values derived from the slate's tensors belong to the graph

    def _step(self, draw: Callable[[], Slate]) -> None:
        rate = self.optimiser.param_groups[0]["lr"]
        if self.possible and self.plain_steps >= EAGER_STEPS and (self.graph is None or rate != self.rate):
            self._capture(draw)
            self.rate = rate
        if self.graph is not None:
            self.graph.replay()
            self.last = self.captured
            if self.reduction is not None:
                self.reduction.decisions.replayed()
            return
        self.plain_steps += 1
        with side_stream():
            super().__call__(draw())

    def _capture(self, draw: Callable[[], Slate]) -> None:
        self.graph = None
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        numbers = generator.clone_state()
        failure: Exception | None = None
        try:
            with self._recorded(graph):
                slate = draw()
                self.captured = self.compute(slate), slate
        except (RuntimeError, LostProcessError) as error:
            torch.cuda.synchronize()
            generator.graphsafe_set_state(numbers)  # the current state waits for the end of the capture
            failure = error
        self.possible = failure is None if self.reduction is None else self.reduction.processes.all(failure is None)
        if not self.possible:
            reason = "another process failed" if failure is None else str(failure).splitlines()[0]
            what = f"the {self.stage.name} step cannot be captured as a CUDA graph ({reason})"
            self.warn(f"{what}; using the eager fallback")
            return
        self.graph = graph

    @contextmanager
    def _recorded(self, graph: torch.cuda.CUDAGraph) -> Iterator[None]:
        """Capture a step; with several processes, threads of NCCL may go on meanwhile."""
        with ExitStack() as stack:
            if self.reduction is not None:
                stack.enter_context(self.reduction.recording(self.adapter.relevance.device))
            mode = "global" if self.reduction is None else "thread_local"
            stack.enter_context(torch.cuda.graph(graph, capture_error_mode=mode))
            yield


def make_step(*parts: Any, speed: str, warn: Callable[[str], None], reduction: Reduction | None = None) -> PlainStep:
    """Create the fastest step for these parts, or an eager one if ``speed`` is ``"plain"``."""
    adapter: BatchAdapter = parts[1]
    stage: Stage = parts[2]
    optimiser: TrainingOptimiser = parts[3]
    together = (*parts, reduction)
    if reduction is not None:
        reduction.begin()
    elif speed != "plain" and stage.sampler.few_shapes:
        return CapturedShapes(*parts, warn=warn)
    if stage.at_once is not None:
        return StepInParts(*together)
    eager = speed == "plain" or not stage.sampler.one_shape or adapter.relevance.device.type != "cuda"
    if eager or not (reduction is None or reduction.recordable(optimiser)):
        return PlainStep(*together)
    return CapturedStep(*together, warn=warn)


def _compiled(loss: RankingLoss, warn: Callable[[str], None]) -> Callable[..., Tensor]:
    """The compiled loss; the loss itself if compilation fails, for example without a C compiler."""
    # Inductor's own sort takes minutes to compile and runs no faster than torch's.
    options: dict[str, Any] = {"triton.persistent_reductions": False}
    call: Callable[..., Tensor] = torch.compile(loss, dynamic=False, options=options)
    # Each run of a process compiles its own loss; torch stops compiling after eight.
    unlimited = torch._dynamo.config.patch(recompile_limit=10**6, accumulated_recompile_limit=10**6)

    def compute(scores: Tensor, slate: Slate, **more: Tensor) -> Tensor:
        nonlocal call
        try:
            with unlimited, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # advice for manual use of torch.compile
                return call(scores, slate, **more)
        except Exception as error:
            if call is loss:
                raise
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            warn(f"{type(loss).__name__} cannot be compiled ({reason}); using the eager loss")
            call = loss
            return loss(scores, slate, **more)  # type: ignore[no-any-return]

    return compute


def _tensors(slate: Slate) -> dict[str, Tensor]:
    parts = {field.name: getattr(slate, field.name) for field in fields(slate)}
    return {name: part for name, part in parts.items() if isinstance(part, Tensor)}
