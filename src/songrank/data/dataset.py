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
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.core.pairs import last_of_equal, pack, unpack, without
from songrank.core.relevance import Relevance
from songrank.io.storage import read_arrays, read_json

FORMAT = "songrank-dataset"
VERSION = 1
SPLITS = ("train", "validation", "test")
_MADE: dict[str, type] = {"options": dict, "sources": list, "left_out": dict}
FORMS = {"recommendation": "catalogue", "labelling": "catalogue", "search": "list"}


@dataclass(frozen=True)
class CatalogueSplit:
    """One split of a catalogue task.

    Args:
        name: ``"train"``, ``"validation"`` or ``"test"``.
        num_items: size of the catalogue.
        pairs: the relevant pairs of each query, oldest first: ``item`` and ``label``; ``time`` where it is known;
            ``place`` among the query's pairs of all splits, where these do not follow one another.
        features: labelling: sparse features of each query, ``index`` and ``value``.
        num_features: how many features there are.
        tokens: labelling: word numbers of each query [Q, T], padded at the end.
        lengths: [Q], how many words each query has.
        weight: [Q], each query's in training; None where all count alike.
        seen: items that a query has seen without their being relevant: ``item``.

    >>> split = CatalogueSplit("train", 9, CSR.from_lengths([2, 1], item=[4, 1, 4], label=[1.0, 1.0, 1.0]))
    >>> split.num_queries, split.num_pairs, split.item.tolist()
    (2, 3, [4, 1, 4])

    """

    name: str
    num_items: int
    pairs: CSR
    features: CSR | None = None
    num_features: int = 0
    tokens: Tensor | None = None
    lengths: Tensor | None = None
    weight: Tensor | None = None
    seen: CSR | None = None

    @property
    def offsets(self) -> Tensor:
        """[Q + 1]: where each query's pairs begin."""
        return self.pairs.offsets

    @property
    def item(self) -> Tensor:
        """Item of each pair."""
        return self.pairs["item"]

    @property
    def label(self) -> Tensor:
        """Label of each pair."""
        return self.pairs["label"]

    @property
    def time(self) -> Tensor | None:
        """Time of each pair, where it is known."""
        return self.pairs.columns.get("time")

    @property
    def place(self) -> Tensor | None:
        """Place of each pair among the query's pairs of all splits, where these do not follow one another."""
        return self.pairs.columns.get("place")

    @property
    def num_queries(self) -> int:
        """How many rows the table has, those without pairs included."""
        return len(self.pairs)

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return self.item.shape[0]

    def keys(self) -> Tensor:
        """The key of each entry (:mod:`songrank.core.pairs`), as they stand: repeated pairs as often as they occur."""
        if self.item.numel() and not 0 <= int(self.item.min()) <= int(self.item.max()) < self.num_items:
            fail(f"items of {self.name}", "outside the catalogue", f"numbers from 0 to {self.num_items - 1}")
        return pack(self.pairs.row_of_entries(), self.item, self.num_items)

    def unique_keys(self) -> tuple[Tensor, Tensor]:
        """The key of each pair once, in order, and its label; of repeated pairs the latest."""
        key, order = self.keys().sort(stable=True)
        last = last_of_equal(key)
        return key[last], self.label[order[last]]

    def unique_pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, item and label of each pair once, in order of query and item; of repeated pairs the latest."""
        key, label = self.unique_keys()
        return *unpack(key, self.num_items), label

    def to(self, device: torch.device | str) -> "CatalogueSplit":
        """The same split with its pairs on another device; what describes its queries stays where it is."""
        pairs = CSR(self.offsets, {"item": self.item, "label": self.label})
        return replace(self, pairs=pairs.to(device))


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
        columns = {key: column for key, column in arrays.items() if key in ("item", "label", "time", "place")}
        with_features = "features.value" in arrays
        return CatalogueSplit(
            name,
            self.num_items,
            CSR(arrays["offsets"], columns),
            _table(arrays, "features", "index", "value") if with_features else None,
            int(self.info["features"]["count"]) if with_features else 0,
            arrays.get("tokens"),
            arrays.get("lengths"),
            arrays.get("weight"),
            _table(arrays, "met", "item") if "met.item" in arrays else None,
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
            barred = without(torch.cat(others).unique(), key)  # type: ignore[no-untyped-call]
        return Relevance.from_keys(key, label, part.num_queries, part.num_items, barred)


def _table(arrays: Mapping[str, Tensor], prefix: str, *columns: str) -> CSR:
    return CSR(arrays[f"{prefix}.offsets"], {name: arrays[f"{prefix}.{name}"] for name in columns})


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open a prepared data set: ``dataset.json`` is read, arrays are mapped, and read when they are touched.

    >>> open_dataset("nowhere")
    Traceback (most recent call last):
    songrank.core.errors.DataError: nowhere/dataset.json: is missing; expected a folder made by `songrank data prepare`
    """
    return Dataset(path)
