"""Memory of a loss beside exact values: u beside the exact g, and λ of K-SONG beside the exact threshold."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from songrank.core.errors import UserError
from songrank.core.gains import Gain
from songrank.functional.ranks import ranks
from songrank.functional.threshold import exact_threshold
from songrank.losses.base import MemoryLoss
from songrank.sampling import SlateSampler
from songrank.training.checkpoints import read_checkpoint
from songrank.training.run import Run
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.shard_state import complete

QUERIES, PAIRS = 200, 10  # at most 10 pairs per query, so 2,000 in total


class Titles(NamedTuple):
    """Names of the stored and the exact value; ``relative`` for values that span orders of magnitude."""

    name: str
    truth: str
    is_log: bool


_TITLES = {
    "u": Titles("u", "exact g", True),
    "log_u": Titles("stored ln u", "exact ln g", False),
    "threshold": Titles("λ", "exact threshold", False),
}


@dataclass(frozen=True)
class Remembered:
    """A table of the memory of a loss on a sample, and the exact values; ``unvisited`` rows have no value yet."""

    table: str
    remembered: tuple[float, ...]
    exact: tuple[float, ...]
    unvisited: int

    @property
    def titles(self) -> Titles:
        """The names of the compared values."""
        return _TITLES[self.table]

    def figures(self) -> dict[str, float]:
        """Measures of agreement; empty if no row was visited."""
        if not self.exact:
            return {}
        name, truth, is_log = self.titles
        held, exact = (torch.tensor(one, dtype=torch.float64) for one in (self.remembered, self.exact))
        kind, error = ("relative", (held - exact).abs() / exact) if is_log else ("absolute", (held - exact).abs())
        found = {"Spearman correlation": spearman(held, exact)}
        found[f"median {kind} error"] = float(error.quantile(0.5))
        found[f"90th percentile of the {kind} error"] = float(error.quantile(0.9))
        if is_log:
            return found | {f"median of {name} / {truth}": float((held / exact).quantile(0.5))}
        return found | {f"standard deviation of the {truth}": float(exact.std()) if len(self.exact) > 1 else 0.0}


def spearman(first: Tensor, second: Tensor) -> float:
    """Spearman's rank correlation; NaN if one of the tensors is constant."""
    places = torch.stack([ranks(values, ties="average").double() for values in (first, second)])
    return float(torch.corrcoef(places)[0, 1]) if len(first) > 1 else float("nan")


@torch.no_grad()
def compare_memory(
    loss: MemoryLoss, model: nn.Module, adapter: BatchAdapter, *, gain: Gain = "exp2", queries: int = QUERIES
) -> list[Remembered]:
    """The memory of a loss beside the exact values of the current model, on a sample of queries chosen by a hash.

    The first visit of a pair sets its row to the estimate of the slate, which is exact on a complete list. The exact
    values are therefore those of ``step`` of the loss on complete lists in float64, with unvisited rows. The exact
    threshold is the (K+1)-th largest score of the complete list; it does not exist if the list has at most K items.
    """
    model.eval()
    sampler = SlateSampler(adapter.relevance, 1, relevant=PAIRS, irrelevant="all", k=loss.k, gain=gain)
    blank = copy.deepcopy(loss)
    blank.reset()
    held: dict[str, list[Tensor]] = {name: [] for name in loss.estimates}
    exact: dict[str, list[Tensor]] = {name: [] for name in loss.estimates}
    for query in sampler.order(0)[:queries].sort().values:
        slate = sampler.draw(query.unsqueeze(0))
        scores = adapter.scores(model, slate).double()
        _, truth = blank.step(scores, slate, blank.gather(slate))
        assert slate.pair is not None
        for name in loss.by_pair:
            held[name].append(loss.table(name).read(slate.pair[slate.active]).double())
            exact[name].append(truth[name][slate.active])
        if "threshold" in held and loss.k is not None and loss.k < int(slate.list_size):
            held["threshold"].append(loss.table("threshold").read(slate.query).double())
            exact["threshold"].append(exact_threshold(scores, loss.k, mask=slate.mask.expand(scores.shape)))
    return [_remembered(name, held[name], exact[name]) for name in held]


def _remembered(name: str, held: list[Tensor], exact: list[Tensor]) -> Remembered:
    if not held:
        return Remembered(name, (), (), 0)
    known, truth = torch.cat(held).cpu(), torch.cat(exact).cpu()
    visited = known.isfinite() & truth.isfinite()
    return Remembered(name, tuple(known[visited].tolist()), tuple(truth[visited].tolist()), int((~visited).sum()))


def read_memory(run: Run) -> tuple[str, int, list[Remembered]]:
    """The loss of the last stage, the step of the last checkpoint, and the memory beside the exact values.

    Exact values are those of the weights of the last checkpoint, to which the memory belongs, not of the best weights.
    """
    step, state = _last_state(run)
    # A checkpoint between two stages belongs to the earlier stage, with its loss and its head.
    at = state["at"]["stage"] - (state["optimiser"] is None)
    if not 0 <= at < len(run.trainer.stages):
        raise UserError("the run has no training steps yet")
    stage = run.trainer.stages[at]
    name = (run.recipe.warm_up.loss if stage.name == "warm-up" else run.recipe.loss)["name"]
    if not isinstance(stage.loss, MemoryLoss):
        raise UserError(f"the loss {name} has no memory")
    try:
        run.trainer.model.load_state_dict(state["model"])
        stage.loss.load_state_dict(state["losses"][at])
    except RuntimeError:
        raise UserError("the last checkpoint does not match the recipe") from None
    return name, step, compare_memory(stage.loss, run.trainer.model, run.trainer.adapter, gain=run.recipe.gain)


def _last_state(run: Run) -> tuple[int, Mapping[str, Any]]:
    kept = run.trainer.checkpoints
    if kept is None or not (steps := kept.steps()):
        raise UserError("the checkpoint with the memory was deleted")
    # Checkpoints of earlier versions, whose recipes had other keys, are read too.
    owner = None if run.directory.notes().get("status") == "finished" else kept.owner
    return steps[-1], complete(read_checkpoint(kept.folder / f"step-{steps[-1]:09d}", owner))
