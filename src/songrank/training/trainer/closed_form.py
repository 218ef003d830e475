"""Training of models that are fitted in closed form, with the interface of the training loop."""

import time
from typing import Any

import torch

from songrank.core.csr import CSR
from songrank.metrics.catalogue import CHOICE_QUERIES, some_queries
from songrank.models.base import ClosedFormFit, RankingModel
from songrank.training.trainer.history_adapters import HistoryAdapter
from songrank.training.trainer.loop import DivergedError, Position, Trainer, validation_name

STAGE, SEARCH = "closed form", "choice of options"


class _StoppedError(Exception):
    """The fit was stopped between two trials."""


class ClosedFormTrainer(Trainer):
    """Fit a model with the capability ``closed_form``; options that are not given are chosen on validation.

    The history has one line per trial, of the stage "choice of options", and one of the fitted model. Trials are
    compared on at most 2,000 validation queries. There are no checkpoints: a stopped run starts again.
    """

    model: RankingModel
    adapter: HistoryAdapter

    def restore(self) -> None:
        """Start from the beginning."""
        torch.manual_seed(self.seed)
        self._restored = True

    def run(self) -> Position:
        """Fit the model, or stop between two trials."""
        self.at, self._last = Position(), time.monotonic()
        relevance = self.adapter.relevance.to("cpu")
        histories = CSR(relevance.indptr, {"item": relevance.item})
        try:
            fitted = self.model.cpu().fit_closed_form(histories, self._trial if self.evaluate_every else None)
            self._go_on()
        except _StoppedError:
            return self.at
        finally:
            self.model.to(self.device)
        if not all(bool(weights.isfinite().all()) for weights in self.model.parameters()):
            raise DivergedError("weights are NaN or infinite; increase model.regularisation")
        value = self.validate(self.metric) if self.evaluate_every else None
        self._add(STAGE, 1, fitted, value)
        self.at.stage, self.at.best = 1, float("-inf") if value is None else value
        return self.at

    def _trial(self, model: RankingModel, fitted: ClosedFormFit) -> float:
        self._go_on()
        targets = some_queries(self.adapter.targets("validation"), CHOICE_QUERIES)
        adapter = self.adapter.with_targets("validation", targets)
        model = model.to(self.device).eval()
        found = adapter.evaluate(model, "validation", self.candidates, **{**self.policies, "metrics": [self.metric]})
        model.cpu()
        value = self.processes.first(found.values[self.metric])
        self._add(SEARCH, self.at.step + 1, fitted, value)
        return value

    def _go_on(self) -> None:
        if self._is_stopped():
            raise _StoppedError

    def _add(self, stage: str, epoch: int, fitted: ClosedFormFit, value: float | None) -> None:
        """Add a line to the history."""
        self.at.step += 1
        line: dict[str, Any] = {"stage": stage, "epoch": epoch, "step": self.at.step, "learning_rate": 0.0}
        line |= {"loss": fitted.objective, "objective": fitted.objective, **fitted.options}
        if value is not None:
            line[validation_name(self.metric, self.candidates)] = value
        self.at.history.append(line)
        now = time.monotonic()
        self.at.epoch_seconds.append(now - self._last)  # with the validation of this line
        self.at.evaluation_seconds.append(0.0)
        self._last = now
        self.observe(line)
        self.tick()

    def better_before(self) -> str:
        """Nothing: there is one result."""
        return ""
