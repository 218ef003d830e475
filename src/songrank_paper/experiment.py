"""What a result of the paper is made of: cells of work, and what is shown of them."""

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
"""Results of cells that are done, by their keys."""


@dataclass(frozen=True)
class Plan:
    """How a result is to be made.

    Args:
        quick: small, so that everything takes minutes on two cores; else the full protocol.
        device: ``"cpu"`` or ``"cuda"``.
        data: folders of prepared data sets, by name, such as ``{"movielens-1m": …}``.
        seeds: of the runs whose mean is shown.
    """

    quick: bool = False
    device: str = "cpu"
    data: Mapping[str, Path] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Cell:
    """One piece of work, whose result is a function of its options alone: done once, kept, and never done again.

    Args:
        name: for people, such as ``"song, gamma 0.1, seed 2"``.
        work: ``"module:function"``; called as ``function(folder, **options, **where)``, it returns what JSON can hold.
            The folder is the cell's own: what a killed run left there is found again.
        options: everything that the result depends on, as JSON: data by fingerprint, not only by path.
        where: what the work needs and the result does not depend on, such as a path or a device.
        timed: it measures time, and so is done alone; its device is one of its options then.

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
        """The name of this work by its content."""
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
    """What an experiment came to: sentences first, then tables and figures, each with a name for its file."""

    remarks: Sequence[str]
    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)


class Experiment(ABC):
    """One table or figure of the paper."""

    name: str
    """As ``songrank paper NAME`` takes it."""
    title: str
    """One line: what is shown."""

    @abstractmethod
    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """All cells that are known to be needed, given what was found so far.

        It is asked again and again until nothing is missing, so that what is run on test can depend on what was chosen
        on validation.
        """

    @abstractmethod
    def show(self, plan: Plan, found: Found) -> Findings:
        """Tables and figures, from the results of all cells."""
