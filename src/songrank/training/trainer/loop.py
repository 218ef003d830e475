"""The training loop: stages in order, evaluation between epochs, and checkpoints from which it resumes bit-exactly."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from songrank import kernels
from songrank.core.checks import check_choice, check_int, check_number
from songrank.core.errors import NotFiniteError, UserError
from songrank.core.forks import check_not_forked
from songrank.core.hashing import derive_key
from songrank.core.processes import ALONE, Processes
from songrank.metrics import Evaluation
from songrank.training.checkpoints import Checkpoints, random_state, set_random_state
from songrank.training.optim.base import TrainingOptimiser
from songrank.training.optim.ema import WeightEMA
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.captured_step import make_step
from songrank.training.trainer.determinism import deterministic_algorithms
from songrank.training.trainer.own_rows import NO_ROWS, OwnRows
from songrank.training.trainer.precision import PRECISIONS
from songrank.training.trainer.shard import Reduction
from songrank.training.trainer.shard_state import LAYOUT, divided, narrowed, own_part
from songrank.training.trainer.stages import KEEP, Stage
from songrank.training.trainer.step import PlainStep, Values

VALIDATION = "validation "  # prefix of validation metrics


def validation_name(metric: str, candidates: int | str) -> str:
    """The name of a validation metric in the history; it mentions sampled candidates."""
    return f"{VALIDATION}{metric}" + ("" if candidates == "all" else f" among {candidates} sampled")


class DivergedError(UserError):
    """A loss, score or weight is NaN or infinite; training stops at the last valid checkpoint."""

    exit_code = 1


class NoMemoryError(UserError):
    """Out of memory in training or evaluation."""


@dataclass
class Position:
    """The position of a run; ``best`` is of the kept checkpoint, ``best_of_stage`` decides about early stopping."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    best: float = float("-inf")
    since_best: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_of_stage: float = float("-inf")
    best_at: int | None = None  # the line of the history of the kept checkpoint
    seconds: float = 0.0  # of training, if they are limited
    limit_reached: bool = False  # whether the time limit ended a stage
    epoch_seconds: list[float] = field(default_factory=list)  # of training, for each line of the history
    evaluation_seconds: list[float] = field(default_factory=list)  # of its validation, 0 without
    partial_seconds: float = 0.0  # of the epoch that has not ended


@dataclass(eq=False, repr=False)
class Trainer:
    """Train a model in stages; a run that is stopped at any step and resumed ends with the same weights.

    Args:
        model: the model, on the adapter's device.
        adapter: computes scores of slates and metrics of splits.
        stages: the stages, in order.
        metric: validation metric; the best checkpoint is the result.
        evaluate_every: evaluate every N epochs; 0 for never, then the last weights are the result.
        candidates: items to rank in these evaluations: ``"all"``, or a number of sampled ones for a catalogue.
        policies: evaluation policies: ties, empty, gain.
        patience: evaluations without improvement before a stage ends early; None for no early stopping.
        keep: ``"last"``: the best checkpoint of the last stage is the result; ``"all"``: that of all stages, and each
            stage starts from the best checkpoint so far.
        checkpoints: storage for checkpoints, saved between epochs; None for none.
        save_every: minimum seconds between checkpoints within a stage.
        limit: seconds of training, over all resumptions; then the run ends as by early stopping. Each stage has a part
            of them by its number of steps. The result depends on the speed of the machine. None for no limit.
        seed: random seed of the model: dropout and the new head.
        precision: precision of matrix products: ``"float32"``, ``"tf32"`` (GPUs round their inputs to 10 bits) or
            ``"bfloat16"``; losses and weights stay in float32.
        speed: ``"auto"`` is the fastest: on a GPU a captured CUDA graph, kernels, deferred row updates, and in long
            stages a compiled loss; ``"plain"`` uses none of these.
        deterministic: bit-exact results from the same seed on a GPU; a CPU always has them.
        processes: the processes that train together, each with a range of the queries; decisions are theirs together.
        own_rows: the model's embeddings with rows of this process's queries only.
        observe: called with each line of the history: one per epoch.
        tick: called after each step; updates of rows of large tables may still be deferred.
        warn: called with one line for each fallback.
    """

    model: nn.Module
    adapter: BatchAdapter
    stages: list[Stage]
    _: KW_ONLY
    metric: str = "ndcg@10"
    evaluate_every: int = 1
    candidates: int | str = "all"
    policies: Mapping[str, Any] = field(default_factory=dict)
    patience: int | None = None
    keep: str = "last"
    checkpoints: Checkpoints | None = None
    save_every: float = 60.0
    limit: float | None = None
    seed: int = 0
    precision: str = "float32"
    speed: str = "auto"
    deterministic: bool = False
    processes: Processes = ALONE
    own_rows: OwnRows = NO_ROWS
    observe: Callable[[dict[str, Any]], None] = lambda line: None
    tick: Callable[[], None] = lambda: None
    warn: Callable[[str], None] = lambda message: None

    def __post_init__(self) -> None:
        check_not_forked()
        self.evaluate_every = check_int("evaluate_every", self.evaluate_every, 0)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("speed", self.speed, ("auto", "plain"))
        check_choice("keep", self.keep, KEEP)
        self.at, self.device = Position(), self.adapter.relevance.device
        self.stopped = self._asked = self._restored = False
        self.step_kind = ""  # of the last stage
        self._values = Values(self.device, max((len(stage.sampler) for stage in self.stages), default=0))
        self._optimiser: TrainingOptimiser | None = None
        self._best: dict[str, Tensor] | None = None
        self._mean = WeightEMA(self.model)
        together = self.processes.world > 1
        self._reduction = Reduction(self.processes, self.model, self.own_rows) if together else None
        self._saved = self._begun = time.monotonic()
        self._late = False  # whether the time of the stage is over
        if self.limit is not None:
            check_number("limit", self.limit, 0, low_open=True)

    def stop(self) -> None:
        """Stop after the current step, with a checkpoint; for signal handlers."""
        self._asked = True

    def _is_stopped(self) -> bool:
        """Whether any process was asked to stop; all have the same answer."""
        self.stopped = self.stopped or self.processes.any(self._asked)
        return self.stopped

    def restore(self) -> None:
        """Load the last complete checkpoint, if any."""
        found = self.checkpoints.latest() if self.checkpoints is not None else None
        if found is not None:
            self.load_state_dict(found[1])
        else:
            torch.manual_seed(_seed_of(self.seed, self.processes.rank))
        self._restored = True

    def run(self) -> Position:
        """Train to the end or until stopped, from the last checkpoint if there is one."""
        if not self._restored:
            self.restore()
        self._begun = time.monotonic()
        try:
            with self._surroundings():
                while self.at.stage < len(self.stages) and not self._is_stopped():
                    self._run_stage(self.stages[self.at.stage])
        finally:
            self._close_optimiser()
        if self._is_stopped():
            self._save()
        elif self._best is not None:
            self.model.load_state_dict(self._best)
        else:
            self._mean.settle()
        return self.at

    def _surroundings(self) -> ExitStack:
        check_not_forked()
        stack = ExitStack()
        if self.device.type == "cuda":  # on a CPU there are no kernels, and sums always have one order
            stack.enter_context(kernels.plain(self.speed == "plain"))
            stack.enter_context(kernels.on_device_of(self._values.kept))
            stack.enter_context(deterministic_algorithms(self.deterministic))
        return stack

    def best_weights(self) -> dict[str, Tensor] | None:
        """The best weights on validation so far, of the stages that may be the result; None without validation."""
        return self._best

    def better_before(self) -> str:
        """A one-line warning if the last stage is the result, but an earlier one was better on validation."""
        if self.keep == "all":
            return ""
        name, last = validation_name(self.metric, self.candidates), self.stages[-1].name
        earlier = [line for line in self.at.history if line["stage"] != last and name in line]
        best = max(earlier, key=lambda line: line[name], default=None)
        if best is None or self._best is None or best[name] <= self.at.best:
            return ""
        worse = f"{last} is worse than {best['stage']}: best {name} {self.at.best:.4f}, against {best[name]:.4f}"
        return (
            f"{worse} after epoch {best['epoch']} of {best['stage']}; the {last} checkpoint is the result; "
            "to keep the best checkpoint of all stages, train with validation.keep=all"
        )

    def result(self) -> str:
        """One line: the stage and epoch of the checkpoint that is the result, and its validation metric."""
        if self.at.best_at is None:
            return ""
        line, name = self.at.history[self.at.best_at], validation_name(self.metric, self.candidates)
        epochs = {stage.name: stage.epochs for stage in self.stages}[line["stage"]]
        where = f"{line['stage']}, epoch {line['epoch']} of {epochs}"
        ended = f"; ended by the time limit of {self.limit:,.0f} s" if self.limit and self.at.limit_reached else ""
        return f"best checkpoint: {where} (step {line['step']:,}), {name} {self.at.best:.4f}{ended}"

    def _run_stage(self, stage: Stage) -> None:
        if self._optimiser is None:
            self._mean.settle()
            if self.keep == "last":
                self.at.best, self.at.best_at, self._best = float("-inf"), None, None
            elif self._best is not None:
                self.model.load_state_dict(self._best)
            if stage.reset_head:
                self.model.reset_head()  # type: ignore[operator]
                self._copy_first()
            self._optimiser = stage.make_optimiser(self.model, self.speed, self.processes)
            self.at.best_of_stage, self.at.since_best = float("-inf"), 0
            self._mean.begin()
        parts = (self.model, self.adapter, stage, self._optimiser, self._values, self.precision)
        step = make_step(*parts, speed=self.speed, warn=self.warn, reduction=self._reduction)
        with closing(step):
            while self.at.epoch < stage.epochs:
                self._run_epoch(stage, self._optimiser, step)
                self.step_kind = step.kind
                if self.stopped and stage.sampler.position:  # within the epoch
                    return
                self.at.epoch += 1
                self._mean.follow(stage.ema_decay, self.at.epoch)
                if self._finish_epoch(stage, step.objective()) or self._late:
                    break
                if self._is_stopped():
                    return
                if self.processes.first(time.monotonic() - self._saved) >= self.save_every:
                    self._save()
        self._close_optimiser()
        self.at.stage, self.at.epoch, self._optimiser = self.at.stage + 1, 0, None
        self._save()

    def _close_optimiser(self) -> None:
        if self._optimiser is not None:
            self._optimiser.close()

    def _run_epoch(self, stage: Stage, optimiser: TrainingOptimiser, step: PlainStep) -> None:
        """Run the rest of an epoch; losses stay on the device until its end."""
        started = time.monotonic()
        self.model.train()
        stage.loss.train()
        for group in optimiser.param_groups:
            group["lr"] = stage.rate(self.at.epoch)
        begun = self.at.step - stage.sampler.position // stage.sampler.queries_per_batch
        if stage.sampler.position == 0:
            self._values.begin()
        try:
            for _ in step.epoch():
                self.at.step += 1
                self.tick()
                if self._ends():
                    break
        finally:
            optimiser.flush()
        first_bad = self._values.first_bad()  # waits for the device
        self.at.partial_seconds += time.monotonic() - started
        if self.processes.any(first_bad is not None):
            raise self._diverged(stage, begun + (first_bad or 0))
        weights = [parameter.detach().isfinite().all() for parameter in self.model.parameters()]
        if self.processes.any(bool(weights) and not bool(torch.stack(weights).all())):
            raise self._diverged(stage, self.at.step - 1, f"weights with {type(stage.loss).__name__} are")
        if self._reduction is not None and not self._reduction.check_equal():
            why = "shared weights differ between processes; train with one process, and report this error"
            raise self.processes.told(UserError(why))

    def _ends(self) -> bool:
        """Whether to stop after this step, on request or because the time of the stage is over."""
        asked, self._late = self._asked, self.limit is not None and self._spent() >= self._time_of_stage()
        if self._reduction is not None:  # decisions travel with the gradients of the next step
            asked, self._late = self._reduction.decisions.tell(asked, self._late)
        self.at.limit_reached |= self._late
        self.stopped = self.stopped or asked
        return self.stopped or self._late

    @property
    def bytes_per_step(self) -> int:
        """The bytes of gradients that the last step summed over the processes; 0 for one process."""
        return 0 if self._reduction is None else self._reduction.bytes

    def _copy_first(self) -> None:
        """Copy the shared weights of the first process."""
        if self._reduction is not None:
            for parameter in self._reduction.shared():
                self.processes.copy_first(parameter.data)

    def _spent(self) -> float:
        """Seconds of training so far."""
        return self.at.seconds + time.monotonic() - self._begun

    def _time_of_stage(self) -> float:
        """Seconds of training after which the current stage ends."""
        assert self.limit is not None
        steps = [stage.epochs * len(stage.sampler) for stage in self.stages]
        return self.limit * sum(steps[: self.at.stage + 1]) / sum(steps)

    def _diverged(self, stage: Stage, step: int, what: str = "") -> UserError:
        kept = self.checkpoints.steps() if self.checkpoints is not None else []
        last = f"the last checkpoint is at step {kept[-1]:,}" if kept else "there is no earlier checkpoint"
        what, where = what or f"{type(stage.loss).__name__} is", f"step {step + 1:,} in {stage.name}"
        return self.processes.told(DivergedError(f"{where}: {what} NaN or infinite; {last}; lower the learning rate"))

    def _finish_epoch(self, stage: Stage, objective: float) -> bool:
        line: dict[str, Any] = {
            "stage": stage.name,
            "epoch": self.at.epoch,
            "step": self.at.step,
            "learning_rate": stage.rate(self.at.epoch - 1),
            "loss": self._values.total() / int(self._values.count),
            "objective": objective,
        }
        self.at.history.append(line)
        self.at.epoch_seconds.append(self.at.partial_seconds)
        self.at.partial_seconds, started = 0.0, time.monotonic()
        last = self.at.epoch == stage.epochs or self._late
        due = self.evaluate_every and (self.at.epoch % self.evaluate_every == 0 or last)
        if due:
            line[validation_name(self.metric, self.candidates)] = value = self.validate(self.metric)
        self.at.evaluation_seconds.append(time.monotonic() - started if due else 0.0)
        self.observe(line)
        return bool(due) and self._keep_best(value)

    def validate(self, metric: str) -> float:
        """Evaluate the weights, or their EMA if the stage has one, on the validation split."""
        with self._mean.in_place():
            found = self.evaluate("validation", candidates=self.candidates, metrics=[metric])
        return self.processes.first(found.values[metric])

    def evaluate(self, split: str, **options: Any) -> Evaluation:
        """Evaluate the model on a split; NaN or infinite scores raise :class:`DivergedError`."""
        self.model.eval()
        try:
            with self._surroundings():
                return self.adapter.evaluate(self.model, split, **{**self.policies, **options})
        except NotFiniteError:
            stage = self.stages[min(self.at.stage, len(self.stages) - 1)]
            raise self._diverged(stage, self.at.step - 1, f"scores with {type(stage.loss).__name__} are") from None

    def _keep_best(self, value: float) -> bool:
        if value > self.at.best_of_stage:
            self.at.best_of_stage, self.at.since_best = value, 0
        else:
            self.at.since_best += 1
        if value > self.at.best:
            self.at.best, self.at.best_at = value, len(self.at.history) - 1
            with self._mean.in_place():
                self._best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        return self.patience is not None and self.at.since_best >= self.patience

    def _save(self) -> None:
        if self.limit is not None:
            self.at.seconds, self._begun = self._spent(), time.monotonic()
        if self.checkpoints is not None:
            self.checkpoints.save(self.at.step, self.state_dict())
            self._saved = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """The complete state of the run; of one of several processes, its part of it."""
        state = {
            "at": vars(self.at),
            "model": self.model.state_dict(),
            "best": self._best,
            "mean": self._mean.weights,
            "values": self._values.kept[: int(self._values.count)],
            "optimiser": None if self._optimiser is None else self._optimiser.state_dict(),
            "losses": [stage.loss.state_dict() for stage in self.stages],
            "samplers": [stage.sampler.state_dict() for stage in self.stages],
            "random": random_state(),
        }
        if self.processes.world == 1:
            return state
        rows = self.own_rows
        optimised = self._optimised(self._optimiser) if self._optimiser is not None else []
        state[LAYOUT] = {"tables": list(rows.tables), "optimised": optimised, "queries": list(rows.queries)}
        return state if self.processes.is_first else own_part(state)

    def _optimised(self, optimiser: TrainingOptimiser) -> list[int]:
        """The numbers, in the optimiser's state, of parameters with rows of this process only."""
        own = {id(self.model.get_parameter(name)) for name in self.own_rows.tables}
        parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        return [number for number, parameter in enumerate(parameters) if id(parameter) in own]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the state of a trainer that has the same arguments, on any number of processes."""
        rows = self.own_rows
        saved, own = len(state["losses"]), len(self.stages)
        if saved != own:
            raise UserError(f"the checkpoint has {saved} stages; expected {own}")
        whole = LAYOUT not in state
        state = divided(state, rows.queries if rows.tables else None, self.processes.rank)
        self.at = Position(**state["at"])
        self._close_optimiser()
        self._optimiser = None
        if state["optimiser"] is not None:
            self._optimiser = self.stages[self.at.stage].make_optimiser(self.model, self.speed, self.processes)
        if whole and rows.tables:
            optimised = self._optimised(self._optimiser) if self._optimiser is not None else []
            narrowed(state, rows.tables, optimised, rows.queries)
        self.model.load_state_dict(state["model"])
        self._best = state["best"]
        self._mean.begin(state["mean"])
        self._values.begin(state["values"])
        for stage, loss, sampler in zip(self.stages, state["losses"], state["samplers"], strict=True):
            stage.loss.load_state_dict(loss)
            stage.sampler.load_state_dict(sampler)
        if self._optimiser is not None:
            self._optimiser.resume(state["optimiser"])
        if state["random"] is None:
            torch.manual_seed(_seed_of(self.seed + self.at.step, self.processes.rank))
        else:
            set_random_state(state["random"])


def _seed_of(seed: int, rank: int) -> int:
    """The seed of a process: dropout of the rows of different processes is independent."""
    return seed if rank == 0 else derive_key(seed, rank) % 2**63
