"""Experiments: a result of the paper consists of experiment cells and of the tables and figures made from them."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = Mapping[str, dict[str, Any]]
"""Results of finished cells by key."""


@dataclass(frozen=True)
class Plan:
    """Settings of a reproduction.

    Args:
        quick: whether to use small sizes, which take minutes on two cores, instead of the full protocol.
        device: ``"cpu"`` or ``"cuda"``.
        data: directories of prepared data sets by name, for example ``{"movielens-1m": …}``.
        seeds: seeds of the reported runs.
    """

    quick: bool = False
    device: str = "cpu"
    data: Mapping[str, Path] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Cell:
    """A unit of work whose result is a function of its options only, so that it runs once and is stored.

    Args:
        name: readable name, for example ``"song, gamma 0.1, seed 2"``.
        work: ``"module:function"``, called as ``function(folder, **options, **where)``; returns JSON values. The
            directory belongs to the cell and keeps the files of a killed run.
        options: everything that the result depends on, as JSON; data sets by fingerprint, not only by path.
        where: arguments that do not affect the result, for example a path or a device.
        timed: whether it measures time and therefore runs alone; its device is then one of its options.

    >>> Cell("one", "module:work", {"seed": 0}).key == Cell("the same", "module:work", {"seed": 0}).key
    True
    """

    name: str
    work: str
    options: Mapping[str, Any]
    where: Mapping[str, Any] = field(default_factory=dict)
    timed: bool = False

    @property
    def key(self) -> str:
        """A hash of work and options."""
        content = json.dumps([self.work, self.options], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Table:
    """A table to show and to write as CSV.

    >>> Table("NDCG@10", ["loss", "mean"], [["song", 0.0422]]).columns
    ['loss', 'mean']
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]


@dataclass(frozen=True)
class Findings:
    """Results of an experiment: remarks, then tables and figures by file name."""

    remarks: Sequence[str]
    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)


class Experiment(ABC):
    """A table or figure of the paper."""

    name: str
    """The NAME of ``songrank paper NAME``."""
    title: str
    """A one-line description."""
    partial = False
    """Whether ``show`` accepts missing results, so that a stopped command shows those so far."""

    @abstractmethod
    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """All cells that are needed, given the results so far.

        It is called again until no cell is missing, so that runs on test can depend on choices on validation.
        """

    @abstractmethod
    def show(self, plan: Plan, found: Found) -> Findings:
        """Tables and figures, from the results of all cells, or of those so far if ``partial``."""
