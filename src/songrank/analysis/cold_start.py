"""Metrics of warm and cold items apart: items with training pairs, and items without, ranked among themselves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.analysis.evaluate import Evaluated
from songrank.baselines.content import content, feature_popularity
from songrank.core.csr import CSR, segment_rows
from songrank.core.errors import DataError
from songrank.core.hashing import derive_key, random_uniform
from songrank.core.pairs import latest_pairs, pack, table_keys, unpack
from songrank.core.relevance import Relevance
from songrank.data import CatalogueSplit
from songrank.metrics import Evaluation, evaluate_catalogue
from songrank.metrics.comparison import Difference, paired_difference
from songrank.training.build import policies

Scorer = Callable[[Tensor], Tensor]
_RANDOM = 0x52414E44


@dataclass(frozen=True)
class Segment:
    """The metrics of several methods on warm or cold items."""

    name: str
    """``"warm items"`` or ``"cold items"``."""
    items: int
    """The number of candidates."""
    users: int
    """The number of users with a target among them."""
    values: dict[str, dict[str, float]]
    """Metrics by method; the first is the run."""
    differences: dict[str, dict[str, Difference]]
    """The run minus each other method by metric, over users, with 95 % intervals."""


def cold_start(run: Evaluated, beside: Sequence[Evaluated] = (), **changes: Any) -> Iterator[Segment]:
    """Metrics of warm and of cold items, each ranked among items of its kind only.

    Cold items have no training pair; targets are the pairs that ``cold_items`` held out, and other held-out pairs of
    such items. Methods are the run, the runs ``beside`` it on the same data, popularity (warm items only: it is 0 for
    all cold items), a random order, and with features of items popularity predicted from them and their similarity to
    the items of the user.

    Args:
        run: an opened run for recommendation.
        beside: other opened runs.
        changes: metrics and policies that replace those of the recipe.
    """
    run.need_recommendation()
    dataset, split = run.dataset, run.split
    train, part = dataset["train"], dataset[split]
    assert isinstance(train, CatalogueSplit)
    assert isinstance(part, CatalogueSplit)
    counts = torch.bincount(train.item.long(), minlength=train.num_items)
    usual = dataset.relevance(split)
    keys, label = _keys(usual), usual.label
    barred = pack(segment_rows(usual.taken_indptr.diff()), usual.taken_item.long(), usual.num_items)
    held_out, labels = [keys], [label]
    if part.cold is not None:
        own, given = latest_pairs(part.cold, part.num_items)
        held_out, labels = [*held_out, own], [*labels, given]
    every, order = torch.cat(held_out).sort()
    values = torch.cat(labels)[order]
    others = [table_keys(table, part.num_items) for table in _others(run, part)]
    barred = torch.cat([barred, *others]).unique()  # type: ignore[no-untyped-call]
    barred = barred[~torch.isin(barred, every)]
    if not bool((counts[unpack(every, part.num_items)[1]] == 0).any()):
        fix = "prepare it with --cold-items 0.1"
        raise DataError(f"has no {split} pair of an item without training pairs", fix, file=str(dataset.path))
    methods: dict[str, Scorer] = {run.path.name: run.scorer()}
    for other in beside:
        if other.dataset.sha256 != dataset.sha256:
            raise DataError(f"was trained on other data than {run.path}", "expected the same", file=str(other.path))
        methods[other.path.name if other.path.name not in methods else str(other.path)] = other.scorer()
    for name, kept in (("warm items", counts > 0), ("cold items", counts == 0)):
        baselines = dict(_baselines(run, train, counts, cold=name == "cold items"))
        targets = _among(every, values, barred, kept, part)
        yield _segment(name, kept, targets, {**methods, **baselines}, run, changes)


def _others(run: Evaluated, part: CatalogueSplit) -> Iterator[CSR]:
    """The cold pairs of other splits."""
    for name, other in run.dataset.items():
        if name != part.name and isinstance(other, CatalogueSplit) and other.cold is not None:
            yield other.cold


def _keys(found: Relevance) -> Tensor:
    return pack(segment_rows(found.indptr.diff()), found.item.long(), found.num_items)


def _among(keys: Tensor, label: Tensor, barred: Tensor, kept: Tensor, part: CatalogueSplit) -> Relevance:
    """The targets and excluded pairs of a part of the catalogue, with its items renumbered."""
    count, place = int(kept.sum()), torch.cumsum(kept, 0) - 1

    def renumbered(some: Tensor) -> tuple[Tensor, Tensor]:
        query, item = unpack(some, part.num_items)
        inside = kept[item]
        return pack(query[inside], place[item[inside]], count), inside

    (wanted, inside), (others, _) = renumbered(keys), renumbered(barred)
    return Relevance.from_keys(wanted, label[inside], part.num_queries, count, others)


def _baselines(run: Evaluated, train: CatalogueSplit, counts: Tensor, *, cold: bool) -> Iterator[tuple[str, Scorer]]:
    if not cold:
        yield "popularity", lambda query: counts.float().expand(query.shape[0], -1)
    elif "item" in run.dataset.features:
        yield "popularity from features", feature_popularity(train, run.dataset.features["item"])
    if "item" in run.dataset.features:
        yield "similarity of features", content(train, run.dataset.features["item"])
    items, key = torch.arange(train.num_items), derive_key(run.recipe.seed, _RANDOM)
    yield "random", lambda query: random_uniform(key, pack(query.unsqueeze(1), items, train.num_items))


def _segment(
    name: str, kept: Tensor, targets: Relevance, methods: dict[str, Scorer], run: Evaluated, changes: dict[str, Any]
) -> Segment:
    options = {"metrics": run.recipe.evaluation.metrics, **policies(run.recipe), **changes}
    columns, found = kept.nonzero().squeeze(1), dict[str, Evaluation]()
    for method, scorer in methods.items():

        def scores(query: Tensor, scorer: Scorer = scorer) -> Tensor:
            return scorer(query).float().cpu()[:, columns]

        found[method] = evaluate_catalogue(scores, targets, **options)
    first, *others = found
    differences = {
        other: {
            metric: paired_difference(values.unsqueeze(0), found[other].per_query[metric].unsqueeze(0), level=0.95)
            for metric, values in found[first].per_query.items()
        }
        for other in others
    }
    users = int((targets.num_relevant > 0).sum())
    return Segment(name, columns.shape[0], users, {m: e.values for m, e in found.items()}, differences)
