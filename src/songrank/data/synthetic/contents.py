"""Synthetic data as the content of a prepared data set, and the truth that was planted in it."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.dataset import SPLITS
from songrank.data.preparation.pair_splits import leave_last_out
from songrank.data.synthetic.labelling import draw_labels, draw_texts
from songrank.data.synthetic.numbers import offsets_of
from songrank.data.synthetic.recommendation import draw_pairs, draw_users
from songrank.data.synthetic.search import Lists
from songrank.data.synthetic.shapes import Plan, make_plan
from songrank.io.arrays import Pieces, ScratchArray
from songrank.io.source import Job

if TYPE_CHECKING:
    from songrank.data.synthetic.synthetic_options import SyntheticOptions

_WHAT = "making synthetic data"


def synthetic(source: None, options: "SyntheticOptions", job: Job, scratch: Path) -> Content:
    """The reader of the registry's ``synthetic``: it reads nothing."""
    return synthetic_content(make_plan(**options.model_dump()), job, scratch)


def synthetic_content(plan: Plan, job: Job, scratch: Path) -> Content:
    """Synthetic data after ``plan``; what does not fit in memory goes to ``scratch`` or comes in pieces."""
    make = {"recommendation": _recommendation, "search": _search, "labelling": _labelling}[plan.task]
    return make(plan, job, scratch)


def planted_scores(plan: Plan, split: str = "train") -> Callable[[Tensor], Tensor]:
    """The best scores that there are for a catalogue task: queries of ``split`` [b] to scores [b, items].

    >>> planted_scores(make_plan(queries=50, items=200))(torch.tensor([3, 5])).shape
    torch.Size([2, 200])
    """
    if plan.task == "search":
        raise DataError("search has no catalogue", "planted_relevance gives its best scores")
    if plan.task == "recommendation":
        takers, first = draw_users(plan), 0
    else:
        takers, first = draw_labels(plan), split_bounds(plan)[SPLITS.index(split)]
    return lambda query: torch.from_numpy(takers.scores(query.cpu().numpy() + first)).to(query.device)


def planted_relevance(plan: Plan, split: str = "train") -> Tensor:
    """The best scores that there are for a search task: one for each document of ``split``.

    >>> planted_relevance(make_plan("search", queries=20)).shape
    torch.Size([200])
    """
    lists, place = Lists.draw(plan), SPLITS.index(split)
    first, last = offsets_of(lists.lengths)[split_bounds(plan)[place : place + 2]]
    return torch.from_numpy(lists.relevance()[first:last])


def split_bounds(plan: Plan) -> list[int]:
    """Where train, validation and test begin among the queries, and where test ends.

    >>> split_bounds(make_plan(shape="mslr-web30k"))
    [0, 18919, 25225, 31531]
    """
    ends = np.cumsum(plan.parts)
    return [0, *(round(plan.queries * int(end) / int(ends[-1])) for end in ends)]


def _recommendation(plan: Plan, job: Job, scratch: Path) -> Content:
    columns = {"item": np.int32, "label": np.float32, "time": np.int64}
    files = {name: {c: ScratchArray(scratch / f"{name}.{c}", kind) for c, kind in columns.items()} for name in SPLITS}
    users = draw_users(plan)
    done = 0
    for pairs in draw_pairs(plan, users):
        numbers, _ = leave_last_out(pairs.counts, plan.holdout)
        for number, name in enumerate(SPLITS):
            for column, file in files[name].items():
                file.append(getattr(pairs, column)[numbers == number])
        done += numbers.shape[0]
        job.report(_WHAT, done, plan.pairs)
    held = np.full(plan.queries, plan.holdout)
    counts = {"train": users.counts - 2 * plan.holdout, "validation": held, "test": held}
    splits: dict[str, dict[str, Array | Pieces]] = {
        name: {"offsets": offsets_of(counts[name]), **{c: file.mapped() for c, file in files[name].items()}}
        for name in SPLITS
    }
    return Content(plan.task, splits, _ids(0, plan.queries), _ids(0, plan.items), _extra(plan))


def _search(plan: Plan, job: Job, scratch: Path) -> Content:
    lists = Lists.draw(plan)
    job.report(_WHAT, 0, None)
    label = lists.labels(lists.relevance())
    offsets, bounds = offsets_of(lists.lengths), split_bounds(plan)
    splits: dict[str, dict[str, Array | Pieces]] = {}
    for name, first, last in zip(SPLITS, bounds, bounds[1:], strict=False):
        within = slice(offsets[first], offsets[last])
        shape = (int(offsets[last] - offsets[first]), plan.features)
        features = Pieces(shape, np.dtype(np.float32), lists.features(first, last))
        splits[name] = {
            "offsets": offsets[first : last + 1] - offsets[first],
            "label": label[within],
            "features": features,
        }
    extra = _extra(plan, count=plan.features, dtype="float32")
    return Content(plan.task, splits, _split_ids(bounds), extra=extra)


def _labelling(plan: Plan, job: Job, scratch: Path) -> Content:
    columns = {"label": np.int32, "word": np.int32, "value": np.float32}
    files = {name: ScratchArray(scratch / name, kind) for name, kind in columns.items()}
    label_counts, word_counts = [], []
    for texts in draw_texts(plan):
        label_counts.append(texts.label_counts)
        word_counts.append(texts.word_counts)
        for name, file in files.items():
            file.append(getattr(texts, name))
        job.report(_WHAT, sum(counts.shape[0] for counts in label_counts), plan.queries)
    made = {name: file.mapped() for name, file in files.items()}
    labels, words = offsets_of(np.concatenate(label_counts)), offsets_of(np.concatenate(word_counts))
    bounds = split_bounds(plan)
    splits: dict[str, dict[str, Array | Pieces]] = {}
    for name, first, last in zip(SPLITS, bounds, bounds[1:], strict=False):
        item = made["label"][labels[first] : labels[last]]
        of_words = slice(words[first], words[last])
        splits[name] = {
            "offsets": labels[first : last + 1] - labels[first],
            "item": item,
            "label": np.ones(item.shape[0], np.float32),
            "features.offsets": words[first : last + 1] - words[first],
            "features.index": made["word"][of_words],
            "features.value": made["value"][of_words],
        }
    extra = _extra(plan, count=plan.features, kind="sparse")
    return Content(plan.task, splits, _split_ids(bounds), _ids(0, plan.items), extra)


def _extra(plan: Plan, **features: Any) -> dict[str, Any]:
    """What ``dataset.json`` says beyond counts: the plan too, so that what was planted can be asked for later."""
    return {"synthetic": asdict(plan), **({"features": features} if features else {})}


def _ids(first: int, last: int) -> Ids:
    return Ids.of(np.arange(first, last))


def _split_ids(bounds: list[int]) -> dict[str, Ids]:
    return {name: _ids(first, last) for name, first, last in zip(SPLITS, bounds, bounds[1:], strict=False)}
