"""The prepared data set: a folder with a readable ``dataset.json`` and arrays that are memory-mapped.

Two forms, after how queries get their items. **Catalogue**: all queries rank the same items; a split is a CSR table of
relevant pairs. **List**: each query brings its own documents; a split is a table of feature rows, grouped by query.
docs/data.md describes the files.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.core.checks import check_choice, fail
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.core.relevance import Relevance
from songrank.io.storage import read_arrays, read_json

FORMAT = "songrank-dataset"
VERSION = 1
SPLITS = ("train", "validation", "test")
_MADE: dict[str, type] = {"options": dict, "sources": list, "left_out": dict}
FORMS = {"recommendation": "catalogue", "labelling": "catalogue", "search": "list"}


@dataclass(frozen=True)
class SparseRows:
    """Sparse features in CSR: row r holds ``value[offsets[r]:offsets[r + 1]]`` at columns ``index[…]``.

    >>> table = SparseRows(torch.tensor([0, 1, 1]), torch.tensor([2]), torch.tensor([0.5]), num_columns=3)
    >>> table.dense(torch.tensor([1, 0])).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5]]
    """

    offsets: Tensor
    index: Tensor
    value: Tensor
    num_columns: int

    def to(self, device: torch.device | str) -> "SparseRows":
        """The same table on another device."""
        return SparseRows(
            self.offsets.to(device), self.index.to(device), self.value.to(device), num_columns=self.num_columns
        )

    def dense(self, rows: Tensor) -> Tensor:
        """These rows as a dense matrix [len(rows), num_columns]."""
        device = self.offsets.device
        rows = rows.to(device)
        starts, counts = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        row = torch.repeat_interleave(torch.arange(rows.shape[0], device=device), counts)
        within = torch.arange(row.shape[0], device=device) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        at = torch.repeat_interleave(starts, counts) + within
        matrix = torch.zeros(rows.shape[0], self.num_columns, device=device)
        matrix[row, self.index[at].long()] = self.value[at].float()
        return matrix


@dataclass(frozen=True)
class CatalogueSplit:
    """One split of a catalogue task: query q has the pairs ``offsets[q]`` to ``offsets[q + 1]``, oldest first.

    ``features`` or ``tokens`` describe the queries of a labelling task: sparse rows, or padded word numbers [Q, T] with
    ``lengths`` [Q]. They are None for recommendation, where a query is just an id. ``weight`` [Q] is each query's in
    training; None where all count alike. ``met`` are offsets and items of what a query met without its being relevant.
    ``place`` is that of each pair among the query's pairs of all splits, where these do not follow one another.

    >>> ones = torch.ones(3)
    >>> split = CatalogueSplit("train", 9, offsets=torch.tensor([0, 2, 3]), item=torch.tensor([4, 1, 4]), label=ones)
    >>> split.num_queries, split.num_pairs
    (2, 3)
    """

    name: str
    num_items: int
    offsets: Tensor
    item: Tensor
    label: Tensor
    time: Tensor | None = None
    features: SparseRows | None = None
    tokens: Tensor | None = None
    lengths: Tensor | None = None
    weight: Tensor | None = None
    met: tuple[Tensor, Tensor] | None = None
    place: Tensor | None = None

    @property
    def num_queries(self) -> int:
        """How many rows the table has, those without pairs included."""
        return self.offsets.shape[0] - 1

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return self.item.shape[0]

    def keys(self) -> Tensor:
        """Query · num_items + item of each entry, as they stand: repeated pairs are there as often as they occur."""
        if self.item.numel() and not 0 <= int(self.item.min()) <= int(self.item.max()) < self.num_items:
            fail(f"items of {self.name}", "outside the catalogue", f"numbers from 0 to {self.num_items - 1}")
        rows = torch.arange(self.num_queries, device=self.offsets.device)
        query = torch.repeat_interleave(rows, self.offsets.diff())
        return query * self.num_items + self.item

    def to(self, device: torch.device | str) -> "CatalogueSplit":
        """The same split with its pairs on another device; what describes its queries stays where it is."""
        moved = {name: getattr(self, name).to(device) for name in ("offsets", "item", "label")}
        return replace(self, **moved)

    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, item and label of each pair once, in order of query and item; of repeated pairs the latest."""
        key, label = self.unique_keys()
        return key // self.num_items, key % self.num_items, label

    def unique_keys(self) -> tuple[Tensor, Tensor]:
        """Query · num_items + item of each pair once, in order, and its label; of repeated pairs the latest."""
        key, order = self.keys().sort(stable=True)
        last = torch.ones_like(key, dtype=torch.bool)
        if key.numel():
            last[:-1] = key[1:] != key[:-1]
        return key[last], self.label[order[last]]


@dataclass(frozen=True)
class ListSplit:
    """One split of a list task: query q has rows ``offsets[q]`` to ``offsets[q + 1]`` of ``features`` and ``label``.

    ``weight`` [Q] is each query's in training; None where all count alike.

    >>> label = torch.tensor([0.0, 1.0, 0.0])
    >>> split = ListSplit("train", offsets=torch.tensor([0, 2, 3]), label=label, features=torch.zeros(3, 5))
    >>> split.lengths.tolist(), split.num_pairs
    ([2, 1], 1)
    """

    name: str
    offsets: Tensor
    label: Tensor
    features: Tensor
    weight: Tensor | None = None

    @property
    def num_queries(self) -> int:
        """How many lists there are."""
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> Tensor:
        """How many documents each list has."""
        return self.offsets.diff()

    @property
    def num_pairs(self) -> int:
        """How many documents are relevant."""
        return int((self.label > 0).sum())


class Dataset(Mapping[str, CatalogueSplit | ListSplit]):
    """A prepared data set: splits by name, ids to map back, and all that ``dataset.json`` says.

    >>> from songrank.data import open_dataset, prepare
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/demo"
    >>> _ = prepare("synthetic", None, folder, queries=50, items=200, pairs=1000)
    >>> dataset = open_dataset(folder)
    >>> dataset.task, list(dataset), dataset.num_queries
    ('recommendation', ['train', 'validation', 'test'], 50)
    >>> relevance = dataset.relevance("train")
    >>> relevance.num_items
    200
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.info: dict[str, Any] = read_json(self.path / "dataset.json")
        found = None
        while found != self.info:  # again if it was replaced while its files were opened
            found = self.info
            self._check()
            self._ids = read_arrays(self.path / "ids.safetensors")
            self._splits = {name: self._open_split(name) for name in self}
            self.info = read_json(self.path / "dataset.json")

    def __reduce__(self) -> tuple[object, ...]:
        """Go to another process as a path: what is mapped here is mapped there."""
        return Dataset, (self.path.absolute(),)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _check(self) -> None:
        file = str(self.path / "dataset.json")
        if self.info.get("format") != FORMAT:
            raise DataError("is not one of ours", "expected a folder made by `songrank data prepare`", file=file)
        if self.info.get("version") != VERSION:
            found = self.info.get("version")
            raise DataError(
                f"has format version {found!r}, and this songrank reads {VERSION}", "prepare it again", file=file
            )
        try:
            well_formed = (
                FORMS.get(self.info["task"]) == self.info["form"]
                and set(self.info["splits"]) <= set(SPLITS)
                and all(isinstance(self.info[count], int) for count in ("queries", "items", "pairs"))
                and all(isinstance(self.info[key], dict) for key in ("labels", "relevant_per_query", "columns", "made"))
                and all(isinstance(self.info["made"][key], kind) for key, kind in _MADE.items())
                and isinstance(self.info["shared_queries"], bool)
            )
        except (KeyError, TypeError):
            well_formed = False
        if not well_formed:
            raise DataError("was changed by hand or is of another kind", "prepare the data set again", file=file)

    @property
    def name(self) -> str:
        """What it was prepared from, e.g. ``movielens-1m``."""
        return str(self.info["name"])

    @property
    def task(self) -> str:
        """``"recommendation"``, ``"labelling"`` or ``"search"``."""
        return str(self.info["task"])

    @property
    def form(self) -> str:
        """``"catalogue"`` or ``"list"``."""
        return str(self.info["form"])

    @property
    def num_queries(self) -> int:
        """Users, texts or search queries, over all splits."""
        return int(self.info["queries"])

    @property
    def num_items(self) -> int:
        """Items of the catalogue; documents of all lists."""
        return int(self.info["items"])

    @property
    def num_pairs(self) -> int:
        """Relevant pairs over all splits."""
        return int(self.info["pairs"])

    @cached_property
    def query_ids(self) -> Ids:
        """Original ids of the queries of a recommendation task, which all splits share."""
        return self._ids_called("query", "its splits have queries of their own: see split_query_ids")

    @cached_property
    def item_ids(self) -> Ids:
        """Original ids of the catalogue's items."""
        return self._ids_called("item", "its items are documents without ids")

    def split_query_ids(self, split: str) -> Ids:
        """Original ids of the queries of one split, in its order."""
        check_choice("split", split, tuple(self))
        return self.query_ids if self.info["shared_queries"] else Ids.from_arrays(f"query.{split}", self._ids)

    def _ids_called(self, name: str, otherwise: str) -> Ids:
        if name not in self._ids:
            raise AttributeError(f"a {self.task} data set has no {name}_ids: {otherwise}")
        return Ids.from_arrays(name, self._ids)

    def __getitem__(self, name: str) -> CatalogueSplit | ListSplit:
        """A split, memory-mapped."""
        return self._splits[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in SPLITS if name in self.info["splits"])

    def __len__(self) -> int:
        return len(self.info["splits"])

    def _open_split(self, name: str) -> CatalogueSplit | ListSplit:
        file = self.path / f"{name}.safetensors"
        arrays = read_arrays(file)
        written = self.info["splits"][name].get("arrays")
        found = {key: [str(value.dtype).removeprefix("torch."), list(value.shape)] for key, value in arrays.items()}
        if written != found:
            raise DataError("does not fit its dataset.json", "prepare the data set again", file=str(file))
        if self.form == "list":
            return ListSplit(name, arrays["offsets"], arrays["label"], arrays["features"], arrays.get("weight"))
        features = None
        if "features.value" in arrays:
            offsets, index, value = (arrays[f"features.{part}"] for part in ("offsets", "index", "value"))
            features = SparseRows(offsets, index, value, int(self.info["features"]["count"]))
        return CatalogueSplit(
            name,
            self.num_items,
            arrays["offsets"],
            arrays["item"],
            arrays["label"],
            arrays.get("time"),
            features,
            arrays.get("tokens"),
            arrays.get("lengths"),
            arrays.get("weight"),
            (arrays["met.offsets"], arrays["met.item"]) if "met.item" in arrays else None,
            arrays.get("place"),
        )

    def relevance(
        self, split: str, *, exclude: tuple[str, ...] | None = None, device: torch.device | str = "cpu"
    ) -> Relevance:
        """Who is relevant to whom in a split, for sampling and for evaluation.

        Args:
            split: ``"train"``, ``"validation"`` or ``"test"``.
            exclude: splits whose pairs compete in no list. By default those before this one, where splits share their
                queries: a user is not shown again what he has seen. Training excludes nothing, since to spare what
                is held out would tell the model about them. A pair that is relevant in ``split`` itself stays.
            device: where it is made and shall lie; a GPU sorts in milliseconds what takes a core seconds.

        """
        check_choice("split", split, tuple(self))
        part = self[split]
        if isinstance(part, ListSplit):
            return Relevance.from_lists(part.label.to(device), part.lengths)
        if exclude is None:
            exclude = tuple(self)[: tuple(self).index(split)] if self.info["shared_queries"] else ()
        for name in exclude:
            check_choice("exclude", name, tuple(self))
        if exclude and not self.info["shared_queries"]:
            fail("exclude", exclude, "nothing: the splits of this data set have no query in common")
        try:
            return self._catalogue_relevance(part, exclude, torch.device(device))
        except torch.OutOfMemoryError:  # sorting takes six times what is kept
            return self._catalogue_relevance(part, exclude, torch.device("cpu")).to(device)

    def _catalogue_relevance(self, part: CatalogueSplit, exclude: tuple[str, ...], device: torch.device) -> Relevance:
        part = part.to(device)
        key, label = part.unique_keys()
        barred = None
        if exclude:
            others = [other.to(device).keys() for name in exclude if isinstance(other := self[name], CatalogueSplit)]
            barred = torch.cat(others).unique()  # type: ignore[no-untyped-call]
            if barred.numel():
                at = torch.searchsorted(barred, key).clamp_(max=barred.numel() - 1)
                kept = torch.ones_like(barred, dtype=torch.bool)
                kept[at[barred[at] == key]] = False
                barred = barred[kept]
        return Relevance.from_keys(key, label, part.num_queries, part.num_items, barred)


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open a prepared data set: ``dataset.json`` is read, arrays are mapped, and read when they are touched.

    >>> open_dataset("nowhere")
    Traceback (most recent call last):
    songrank.core.errors.DataError: nowhere/dataset.json: is missing; expected a folder made by `songrank data prepare`
    """
    return Dataset(path)
