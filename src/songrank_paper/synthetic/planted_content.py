"""Synthetic data as the content of a prepared data set, and their planted truth."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.csr import CSR, numpy_offsets
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Arrays, Content
from songrank.data.dataset import SPLITS
from songrank.data.preparation.row_writer import RowWriter, csr_arrays
from songrank.data.preparation.splits import leave_last_out
from songrank.io.arrays import Pieces
from songrank.io.source import Job
from songrank_paper.synthetic.labelling import draw_labels, draw_texts
from songrank_paper.synthetic.recommendation import draw_pairs, draw_users
from songrank_paper.synthetic.search import Lists
from songrank_paper.synthetic.shapes import Plan, make_plan

if TYPE_CHECKING:
    from songrank_paper.synthetic.synthetic_options import SyntheticOptions

_WHAT = "generating synthetic data"


def synthetic(source: None, options: "SyntheticOptions", job: Job, scratch: Path) -> Content:
    """The reader of the kind ``synthetic``, which needs no source."""
    return synthetic_content(make_plan(**options.model_dump()), job, scratch)


def synthetic_content(plan: Plan, job: Job, scratch: Path) -> Content:
    """Synthetic data of a ``plan``; large parts are written to ``scratch`` or generated in blocks."""
    return {"recommendation": _recommendation, "search": _search, "labelling": _labelling}[plan.task](
        plan, job, scratch
    )


def planted_scores(plan: Plan, split: str = "train") -> Callable[[Tensor], Tensor]:
    """The best possible scores of a catalogue task: a function from queries of ``split`` [b] to scores [b, items].

    >>> planted_scores(make_plan(queries=50, items=200))(torch.tensor([3, 5])).shape
    torch.Size([2, 200])
    """
    if plan.task == "search":
        raise DataError("search has no catalogue", "use planted_relevance for its best scores")
    shared = plan.task == "recommendation"
    takers, first = (draw_users(plan), 0) if shared else (draw_labels(plan), _split_rows(plan)[split][0])
    return lambda query: torch.from_numpy(takers.scores(query.cpu().numpy() + first)).to(query.device)


def planted_relevance(plan: Plan, split: str = "train") -> Tensor:
    """The best possible scores of a search task, one per document of ``split``.

    >>> planted_relevance(make_plan("search", queries=20)).shape
    torch.Size([200])
    """
    lists = Lists.draw(plan)
    first, last = numpy_offsets(lists.lengths)[list(_split_rows(plan)[split])]
    return torch.from_numpy(lists.relevance()[first:last])


def split_bounds(plan: Plan) -> list[int]:
    """Indices of the queries at which train, validation and test begin, and at which test ends.

    >>> split_bounds(make_plan(shape="mslr-web30k"))
    [0, 18919, 25225, 31531]
    """
    return [round(plan.queries * int(end) / sum(plan.parts)) for end in numpy_offsets(plan.parts)]


def _recommendation(plan: Plan, job: Job, scratch: Path) -> Content:
    columns = {"item": np.int32, "label": np.float32, "time": np.int64}
    files, done = [RowWriter(scratch, name, columns) for name in SPLITS], 0
    for pairs in draw_pairs(plan):
        codes = leave_last_out(pairs.counts, plan.holdout)
        for code, file in enumerate(files):
            counts = np.full_like(pairs.counts, plan.holdout) if code else pairs.counts - 2 * plan.holdout
            file.append(counts, **{column: getattr(pairs, column)[codes == code] for column in columns})
        done += codes.shape[0]
        job.report(_WHAT, done, plan.pairs)
    splits = {name: csr_arrays(file.finish()) for name, file in zip(SPLITS, files, strict=True)}
    return Content(plan.task, splits, Ids.count(plan.queries), Ids.count(plan.items), _extra(plan))


def _search(plan: Plan, job: Job, scratch: Path) -> Content:
    lists = Lists.draw(plan)
    job.report(_WHAT, 0, None)
    labels = CSR.from_lengths(lists.lengths, label=lists.labels(lists.relevance()))
    splits: dict[str, Arrays] = {}
    for name, rows in _split_rows(plan).items():
        splits[name] = csr_arrays(labels.slice(*rows))
        shape = (splits[name]["label"].shape[0], plan.features)
        splits[name]["features"] = Pieces(shape, np.dtype(np.float32), lists.features(*rows))
    return Content(plan.task, splits, _split_ids(plan), extra=_extra(plan, dtype="float32"))


def _labelling(plan: Plan, job: Job, scratch: Path) -> Content:
    labels = RowWriter(scratch, "labels", {"item": np.int32, "label": np.float32})
    features = RowWriter(scratch, "features", {"index": np.int32, "value": np.float32})
    for texts in draw_texts(plan):
        labels.append(texts.label_counts, item=texts.label, label=np.ones(texts.label.shape[0]))
        features.append(texts.word_counts, index=texts.word, value=texts.value)
        job.report(_WHAT, labels.rows, plan.queries)
    label_rows, word_rows = labels.finish(), features.finish()
    splits = {
        name: csr_arrays(label_rows.slice(*rows)) | csr_arrays(word_rows.slice(*rows), "features.")
        for name, rows in _split_rows(plan).items()
    }
    return Content(plan.task, splits, _split_ids(plan), Ids.count(plan.items), _extra(plan, kind="sparse"))


def _split_rows(plan: Plan) -> dict[str, tuple[int, int]]:
    """First row and last row + 1 of each split."""
    return dict(zip(SPLITS, pairwise(split_bounds(plan)), strict=True))


def _split_ids(plan: Plan) -> dict[str, Ids]:
    return {name: Ids.of(np.arange(*rows)) for name, rows in _split_rows(plan).items()}


def _extra(plan: Plan, **features: Any) -> dict[str, Any]:
    """Additional entries of ``dataset.json``, with the plan, from which the planted truth can be computed later."""
    described = {"features": {"count": plan.features, **features}} if features else {}
    return {"synthetic": asdict(plan), **described}
