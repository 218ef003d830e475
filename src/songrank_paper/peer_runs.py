"""The work of ``fig-peers``: losses of other libraries in our training loop, and timed epochs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.losses.base import RankingLoss
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory
from songrank_paper.peer_losses import RandomTiesListMLE
from songrank_paper.runs import finish_run, results, watch_curve


class LibaucSONG(RankingLoss):
    """``libauc.losses.NDCGLoss`` with the interface of our losses; its memory is on the host and not in checkpoints.

    Args:
        num_pairs: number of relevant pairs of the task.
        num_queries: number of queries of the task.
        num_items: number of items of the catalogue.
        relevant: number of relevant items per slate row, which come first; masks are not supported.
        gamma: γ of u.
    """

    def __init__(self, num_pairs: int, num_queries: int, num_items: int, relevant: int, gamma: float) -> None:
        from libauc.losses.ranking import NDCGLoss

        super().__init__()
        self.relevant = relevant
        sizes = {"N": num_pairs, "num_user": num_queries, "num_item": num_items, "num_pos": relevant}
        self.theirs = NDCGLoss(**sizes, gamma0=gamma, device=torch.device("cpu"))

    def forward(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss of the rows that are not padding."""
        there = slate.rows_present if slate.row_weight is None else slate.rows_present & (slate.row_weight > 0)
        assert slate.pair is not None
        batch = {
            "rating": slate.label[there],
            "user_id": slate.query[there],
            "num_pos_items": slate.num_relevant[there],
            "ideal_dcg": slate.ideal_dcg[there],
            "user_item_id": slate.pair[there],
        }
        value: Tensor = self.theirs(scores[there], batch)
        return value

    @torch.no_grad()
    def objective(self, scores: Tensor, slate: Slate) -> Tensor:
        """NaN: this loss has no objective to report."""
        return scores.new_zeros(())


def train_libauc(folder: Path, **options: Any) -> dict[str, Any]:
    """Like :func:`songrank_paper.runs.train` with the loss of libauc, but never resumed."""
    return _train_peer(folder, _put_libauc, **options)


def train_listmle(folder: Path, **options: Any) -> dict[str, Any]:
    """Like :func:`songrank_paper.runs.train` with ListMLE of TensorFlow Ranking, but never resumed."""
    return _train_peer(folder, _put_listmle, **options)


def _train_peer(
    folder: Path,
    prepare: Callable[[Run], None],
    *,
    recipe: Mapping[str, Any],
    data: str,
    splits: Sequence[str],
    after: str | None,
    path: str,
    device: str,
) -> dict[str, Any]:
    shutil.rmtree(folder / "run", ignore_errors=True)

    def opened(run: Run) -> None:
        prepare(run)
        watch_curve(run)

    given = {**recipe, "data": path, "device": device}
    lost = finish_run(folder, given, data, splits, after=after, opened=opened)
    return results(RunDirectory(folder / "run"), splits) if lost is None else lost


def time_epochs(
    folder: Path,
    *,
    recipe: Mapping[str, Any],
    data: str,
    splits: Sequence[str],
    after: str | None,
    path: str,
    device: str,
    prepare: Callable[[Run], None] = lambda run: None,
) -> dict[str, Any]:
    """Median seconds per epoch, without the first, which includes one-time work."""
    assert after is None
    shutil.rmtree(folder / "run", ignore_errors=True)
    at: list[float] = []

    def opened(run: Run) -> None:
        prepare(run)
        run.observe = lambda line: at.append(time.monotonic())

    lost = finish_run(folder, {**recipe, "data": path, "device": device}, data, splits, opened=opened)
    return {"seconds": median(later - earlier for earlier, later in pairwise(at))} if lost is None else lost


def time_libauc(folder: Path, **options: Any) -> dict[str, Any]:
    """Like :func:`time_epochs` with the loss of libauc."""
    return time_epochs(folder, **options, prepare=_put_libauc)


def time_listmle(folder: Path, **options: Any) -> dict[str, Any]:
    """Like :func:`time_epochs` with ListMLE of TensorFlow Ranking."""
    return time_epochs(folder, **options, prepare=_put_listmle)


def _put_listmle(run: Run) -> None:
    """Replace the loss of the last stage by ListMLE of TensorFlow Ranking."""
    loss = RandomTiesListMLE(run.recipe.seed).to(run.trainer.adapter.relevance.device)
    run.trainer.stages[-1] = replace(run.trainer.stages[-1], loss=loss)


def _put_libauc(run: Run) -> None:
    """Replace the loss of the last stage by that of libauc, whose steps cannot be captured in a CUDA graph."""
    stage, relevance = run.trainer.stages[-1], run.trainer.adapter.relevance
    relevant = stage.sampler.relevant
    assert isinstance(relevant, int)
    sizes = (relevance.num_pairs, relevance.num_queries, relevance.num_items)
    run.trainer.stages[-1] = replace(stage, loss=LibaucSONG(*sizes, relevant, run.recipe.loss["gamma"]))
    run.trainer.speed = "plain"
