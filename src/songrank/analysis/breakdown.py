"""Breakdowns of a run's metrics: by activity of users, by popularity of held-out items, and by segments of a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.analysis.evaluate import Evaluated
from songrank.analysis.report.bins import size_ranges
from songrank.core.csr import segment_rows
from songrank.core.errors import DataError
from songrank.core.pairs import pack, without
from songrank.core.relevance import Relevance
from songrank.core.text import counted
from songrank.metrics import Evaluation
from songrank.metrics.comparison import paired_difference

ACTIVITY, POPULARITY = "activity", "popularity"
_PARTS = 3


@dataclass(frozen=True)
class Group:
    """The mean of each metric over a group of users, with a 95 % interval, NaN for a single user."""

    name: str
    users: int
    means: dict[str, tuple[float, float, float]]
    """Mean, low and high by metric."""

    def json(self) -> dict[str, dict[str, float]]:
        """The means by metric, as ``mean``, ``low`` and ``high``."""
        return {name: dict(zip(("mean", "low", "high"), found, strict=True)) for name, found in self.means.items()}


def break_down(run: Evaluated, by: str, **changes: Any) -> list[Group]:
    """Metrics of groups of users, or of held-out items.

    Args:
        run: an opened run for recommendation.
        by: ``"activity"``: users by number of training items; ``"popularity"``: held-out items by number of training
            users, cold items (0) apart, with only these items as targets; or a table with a column of users and one of
            segments.
        changes: metrics and policies that replace those of the recipe.
    """
    run.need_recommendation()
    train = run.dataset.relevance("train")
    if by == POPULARITY:
        return list(_by_popularity(run, train, changes))
    whole = run.evaluate(**changes)
    if by == ACTIVITY:
        sizes = train.num_relevant
        known = ~next(iter(whole.per_query.values())).isnan()
        ranges = [("training items", first, last) for first, last in size_ranges(sizes[known], _PARTS)]
        return [_group(_range(*one), whole, (sizes >= one[1]) & (sizes <= one[2])) for one in ranges]
    return _by_table(run, whole, Path(by))


def _group(name: str, found: Evaluation, inside: Tensor) -> Group:
    means, users = {}, 0
    for metric, values in found.per_query.items():
        own = values.cpu()[inside.cpu()].double()
        own = own[~own.isnan()].unsqueeze(0)
        users = own.shape[1]
        if not users:
            means[metric] = (float("nan"),) * 3
            continue
        mean = paired_difference(own, torch.zeros_like(own), level=0.95)
        means[metric] = mean.mean, mean.low, mean.high
    return Group(name, users, means)


def _range(what: str, first: int, last: int) -> str:
    return counted(first, what) if first == last else f"{first:,} to {last:,} {what}"


def _by_popularity(run: Evaluated, train: Relevance, changes: Mapping[str, Any]) -> Iterator[Group]:
    popularity = torch.bincount(train.item.long(), minlength=train.num_items)
    targets = run.dataset.relevance(run.split)
    own = popularity[targets.item.long()]
    warm = size_ranges(own[own > 0], _PARTS)
    for first, last in [*([(0, 0)] if bool((own == 0).any()) else []), *warm]:
        part = _only(targets, (own >= first) & (own <= last))
        name = "cold items (0 training users)" if last == 0 else f"items with {_range('training users', first, last)}"
        found = run.evaluate(part, **changes)
        yield _group(name, found, part.num_relevant > 0)


def _only(targets: Relevance, kept: Tensor) -> Relevance:
    """The lists with some of their targets; the others stay candidates."""
    query, taken = segment_rows(targets.indptr.diff()), segment_rows(targets.taken_indptr.diff())
    keys = pack(query, targets.item.long(), targets.num_items)
    barred = without(pack(taken, targets.taken_item.long(), targets.num_items), keys)
    return Relevance.from_keys(keys[kept], targets.label[kept], targets.num_queries, targets.num_items, barred)


def _by_table(run: Evaluated, whole: Evaluation, file: Path) -> list[Group]:
    """Groups by a column of a table of users."""
    from songrank.data.readers.interactions import USER_NAMES
    from songrank.io.source import Job
    from songrank.io.tables.input_table import InputTable
    from songrank.io.tables.polars_frames import need_column
    from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids

    table = InputTable(file, Job())
    user = need_column("auto", USER_NAMES, table.columns, "user", table.name, "a column named user")
    others = [name for name in table.columns if name != user]
    if len(others) != 1:
        named = ", ".join(map(repr, others)) or "none"
        raise DataError(f"has the columns {named} beside {user}", "expected one column of segments", file=table.name)
    segment = torch.full((run.dataset.num_queries,), -1)
    names: dict[str, int] = {}
    for block in table.blocks([user, others[0]]):
        place = run.dataset.query_ids.find(block.read(read_ids, user, ID_EXPECTED))
        texts = ["(none)" if value is None else str(value) for value in block.frame[others[0]].to_list()]
        number = torch.tensor([names.setdefault(text, len(names)) for text in texts])
        segment[place[place >= 0]] = number[place >= 0]
    if not bool((segment >= 0).any()):
        raise DataError("has no user of the data set", "expected the user ids of the training data", file=table.name)
    groups = [_group(name, whole, segment == number) for name, number in sorted(names.items())]
    rest = _group("users without a segment", whole, segment < 0)
    return [*groups, *([rest] if rest.users else [])]
