"""One step of training: scores, loss, gradient, update. Plain, or recorded once as a CUDA graph and replayed.

A recorded step does the same work in the same order, without Python in between, which is most of a small step's time on
a GPU. What must not be recorded is kept outside: drawing slates, evaluation, checkpoints. When the learning rate
changes, the step is recorded anew.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from songrank.slate import Slate
from songrank.training.feeds import Feed
from songrank.training.stages import Stage

NEVER = 2**62
_EAGER_STEPS = 3  # before recording: libraries choose their kernels, and the optimiser makes its state


class Counters:
    """What is known of an epoch without asking the device: the sum of the losses, steps, and the first bad step."""

    def __init__(self, device: torch.device) -> None:
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        self.first_bad = torch.full((), NEVER, dtype=torch.int64, device=device)

    def begin(self, step: int, *, new_epoch: bool) -> None:
        """Start at this step; the sum goes on in an epoch that was interrupted."""
        self.steps.fill_(step)
        self.first_bad.fill_(NEVER)
        if new_epoch:
            self.total.zero_()

    def add(self, value: Tensor) -> None:
        """Count one step."""
        self.total.add_(value)
        bad = torch.where(value.isfinite(), self.first_bad, torch.minimum(self.first_bad, self.steps))
        self.first_bad.copy_(bad)
        self.steps.add_(1)


class PlainStep:
    """A step as one would write it by hand."""

    def __init__(
        self,
        model: nn.Module,
        feed: Feed,
        stage: Stage,
        optimiser: torch.optim.Optimizer,
        counters: Counters,
        mixed: bool,
    ) -> None:
        self.model, self.feed, self.stage, self.optimiser = model, feed, stage, optimiser
        self.counters, self.mixed = counters, mixed
        self.last: tuple[Tensor, Slate] | None = None

    def __call__(self, slate: Slate) -> None:
        """Do one step."""
        self.optimiser.zero_grad(set_to_none=True)
        self.last = self.compute(slate), slate

    def compute(self, slate: Slate) -> Tensor:
        """Scores, loss, gradient and update; the scores are returned."""
        device = self.feed.relevance.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed, cache_enabled=False):
            scores = self.feed.scores(self.model, slate)
        value = self.stage.loss(scores, slate)
        value.backward()
        if self.stage.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.stage.clip)
        self.counters.add(value.detach())
        self.optimiser.step()
        return scores.detach()

    def objective(self) -> float:
        """The readable value of the loss for the last slate."""
        assert self.last is not None
        scores, slate = self.last
        return float(self.stage.loss.objective(scores, slate))


class CapturedStep(PlainStep):
    """The same step as a graph; slates of another shape, and a few at the start, go the plain way."""

    def __init__(self, *parts: Any, warn: Callable[[str], None]) -> None:
        super().__init__(*parts)
        self.warn = warn
        self.plain_steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.slate: Slate | None = None
        self.rate = 0.0
        self.possible = True

    def __call__(self, slate: Slate) -> None:
        """Do one step."""
        if not self.possible or self.plain_steps < _EAGER_STEPS:
            self.plain_steps += 1
            with _side_stream():
                super().__call__(slate)
            return
        if self.slate is not None and _shapes(slate) != _shapes(self.slate):
            super().__call__(slate)
            return
        rate = self.optimiser.param_groups[0]["lr"]
        if self.graph is None or rate != self.rate:
            self._record(slate)
            self.rate = rate
        if self.graph is None:  # it could not be recorded
            super().__call__(slate)
            return
        assert self.slate is not None
        for name, value in _tensors(slate).items():
            getattr(self.slate, name).copy_(value)
        self.graph.replay()
        self.last = self.scores, slate

    def _record(self, slate: Slate) -> None:
        """Record the step on a copy of this slate; nothing is computed yet."""
        copies: dict[str, Any] = {name: value.clone() for name, value in _tensors(slate).items()}
        self.graph, self.slate = None, replace(slate, **copies)
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.scores = self.compute(replace(self.slate))  # what a slate derives from its tensors is recorded too
        except RuntimeError as error:
            torch.cuda.synchronize()
            self.possible, self.slate = False, None
            reason = str(error).splitlines()[0]
            self.warn(f"the step of {self.stage.name} cannot be recorded as a graph ({reason}): going the plain way")
            return
        self.graph = graph


def make_step(*parts: Any, speed: str, warn: Callable[[str], None]) -> PlainStep:
    """The fastest step there is for these parts, or the plain one if ``speed`` is ``"plain"``."""
    feed: Feed = parts[1]
    if speed == "plain" or feed.relevance.device.type != "cuda":
        return PlainStep(*parts)
    return CapturedStep(*parts, warn=warn)


@contextmanager
def _side_stream() -> Iterator[None]:
    """A stream of its own, as torch asks for before recording, joined with the current one at both ends."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    outer = torch.cuda.current_stream()
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)


def _tensors(slate: Slate) -> dict[str, Tensor]:
    found = {field.name: getattr(slate, field.name) for field in fields(slate)}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _shapes(slate: Slate) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in _tensors(slate).items()}
