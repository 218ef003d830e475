"""The loop: stages one after the other, evaluation between epochs, and a state from which it goes on bit for bit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from songrank._checks import check_int
from songrank.errors import UserError
from songrank.training.checkpoints import Checkpoints
from songrank.training.feeds import Feed
from songrank.training.stages import Stage
from songrank.training.state_tree import random_state, set_random_state

_NEVER = 2**62


class DivergedError(UserError):
    """A loss that is no number any more: training was stopped at the last good state."""


@dataclass
class Position:
    """Where a run stands, in plain numbers."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    best: float = float("-inf")
    since_best: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """Trains a model through stages; stopped at any step and started again, it ends with the same weights.

    Args:
        model: what is trained, on the feed's device.
        feed: what it is fed with.
        stages: one after the other.
        metric: what is watched on the validation split; the best state of the last stage by it is the result.
        evaluate_every: epochs between evaluations; 0 for none, then the last state is the result.
        patience: evaluations without a better figure after which a stage ends early; None for never.
        checkpoints: where the state is kept; None for nowhere.
        save_every: least seconds between checkpoints within a stage; they are taken between epochs.
        seed: of everything random in the model: dropout, and the new head.
        observe: called with each line of the history as it is written.

    """

    def __init__(
        self,
        model: nn.Module,
        feed: Feed,
        stages: Sequence[Stage],
        *,
        metric: str = "ndcg@10",
        evaluate_every: int = 1,
        patience: int | None = None,
        checkpoints: Checkpoints | None = None,
        save_every: float = 60.0,
        seed: int = 0,
        observe: Callable[[dict[str, Any]], None] = lambda line: None,
    ) -> None:
        self.model, self.feed, self.stages = model, feed, list(stages)
        self.metric, self.evaluate_every, self.patience = (
            metric,
            check_int("evaluate_every", evaluate_every, 0),
            patience,
        )
        self.checkpoints, self.save_every, self.seed, self.observe = checkpoints, save_every, seed, observe
        self.at = Position()
        self.stopped = False
        self._optimiser: torch.optim.Optimizer | None = None
        self._best: dict[str, Tensor] | None = None
        self._saved = time.monotonic()

    def stop(self) -> None:
        """End after the step that is under way, with a checkpoint; for signal handlers."""
        self.stopped = True

    def run(self) -> Position:
        """Train to the end, or until stopped; go on from the last checkpoint if there is one."""
        found = self.checkpoints.latest() if self.checkpoints is not None else None
        if found is not None:
            self.load_state_dict(found[1])
        else:
            torch.manual_seed(self.seed)
        while self.at.stage < len(self.stages) and not self.stopped:
            self._run_stage(self.stages[self.at.stage])
        if self.stopped:
            self._save()
        elif self._best is not None:
            self.model.load_state_dict(self._best)
        return self.at

    def _run_stage(self, stage: Stage) -> None:
        if self._optimiser is None:
            if stage.reset_head:
                self.model.reset_head()  # type: ignore[operator]
            self._optimiser = stage.make_optimiser(self.model)
            self.at.best, self.at.since_best, self._best = float("-inf"), 0, None
        while self.at.epoch < stage.epochs:
            self._run_epoch(stage, self._optimiser)
            if self.stopped and stage.sampler.position:  # in the midst of it
                return
            self.at.epoch += 1
            if self._finish_epoch(stage):
                break
            if self.stopped:
                return
            if time.monotonic() - self._saved >= self.save_every:
                self._save()
        self.at.stage, self.at.epoch, self._optimiser = self.at.stage + 1, 0, None
        self._save()

    def _run_epoch(self, stage: Stage, optimiser: torch.optim.Optimizer) -> None:
        """What is left of an epoch; values stay on the device until its end."""
        self.model.train()
        stage.loss.train()
        for group in optimiser.param_groups:
            group["lr"] = stage.rate(self.at.epoch)
        first_bad = torch.full((), _NEVER, dtype=torch.int64, device=self.feed.relevance.device)
        for slate in stage.sampler:
            optimiser.zero_grad(set_to_none=True)
            value = stage.loss(self.feed.scores(self.model, slate), slate)
            value.backward()
            if stage.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), stage.clip)
            first_bad = torch.where(value.detach().isfinite(), first_bad, first_bad.clamp(max=self.at.step))
            optimiser.step()
            self.at.step += 1
            if self.stopped:
                break
        if int(first_bad) < _NEVER:
            raise self._diverged(stage, int(first_bad))

    def _diverged(self, stage: Stage, step: int) -> DivergedError:
        kept = self.checkpoints.steps() if self.checkpoints is not None else []
        last = f"the last good checkpoint is after step {kept[-1]:,}" if kept else "there is no checkpoint before it"
        name = type(stage.loss).__name__
        return DivergedError(
            f"step {step:,} of {stage.name}: {name} is not finite; {last}: lower the learning rate, or clip"
        )

    def _finish_epoch(self, stage: Stage) -> bool:
        """Evaluate if it is time; True when patience is over."""
        due = self.evaluate_every and (self.at.epoch % self.evaluate_every == 0 or self.at.epoch == stage.epochs)
        if not due:
            return False
        self.model.eval()
        value = self.feed.evaluate(self.model, "validation", metrics=[self.metric]).values[self.metric]
        line = {"stage": stage.name, "epoch": self.at.epoch, "step": self.at.step, self.metric: value}
        self.at.history.append(line)
        self.observe(line)
        if value > self.at.best:
            self.at.best, self.at.since_best = value, 0
            self._best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        else:
            self.at.since_best += 1
        return self.patience is not None and self.at.since_best >= self.patience

    def _save(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(self.at.step, self.state_dict())
            self._saved = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on."""
        return {
            "at": vars(self.at),
            "model": self.model.state_dict(),
            "best": self._best,
            "optimiser": None if self._optimiser is None else self._optimiser.state_dict(),
            "losses": [stage.loss.state_dict() for stage in self.stages],
            "samplers": [stage.sampler.state_dict() for stage in self.stages],
            "random": random_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of a trainer that was made alike."""
        if len(state["losses"]) != len(self.stages):
            raise UserError(
                f"the checkpoint has {len(state['losses'])} stages; expected {len(self.stages)} as given here"
            )
        self.at = Position(**state["at"])
        self.model.load_state_dict(state["model"])
        self._best = state["best"]
        for stage, loss, sampler in zip(self.stages, state["losses"], state["samplers"], strict=True):
            stage.loss.load_state_dict(loss)
            stage.sampler.load_state_dict(sampler)
        self._optimiser = None
        if state["optimiser"] is not None:
            self._optimiser = self.stages[self.at.stage].make_optimiser(self.model)
            self._optimiser.load_state_dict(state["optimiser"])
        set_random_state(state["random"])
