"""The prepared data set: a directory with a human-readable ``dataset.json`` and memory-mapped arrays.

**Catalogue** form: all queries rank the same items; a split is a CSR table of relevant pairs. **List** form: each query
has its own documents; a split is a table of feature rows, grouped by query. See docs/reference/file-formats.md.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.core.checks import check_choice, fail
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.core.feature_rows import FeatureRows
from songrank.core.ids import Ids
from songrank.core.pairs import latest_pairs, sorted_rows, table_keys, unpack, without
from songrank.core.relevance import Relevance
from songrank.io.arrays import read_arrays
from songrank.io.files import file_digests
from songrank.io.json_files import read_json
from songrank.io.verification import verify_file

FORMAT = "songrank-dataset"
VERSION = 1
SPLITS = ("train", "validation", "test")
_MADE: dict[str, type] = {"options": dict, "sources": list, "left_out": dict}
_AGAIN, _MADE_BY = "prepare the data set again", "expected a directory written by `songrank data prepare`"
ENCODER = "encoder."
"""Prefix of the arrays of an encoder of features."""
FEATURE_ARRAYS = ("dense", "offsets", "index", "value", "trained")
FORMS = {"recommendation": "catalogue", "labelling": "catalogue", "search": "list"}


def features_file(word: str) -> str:
    """The file of the features of items or users.

    >>> features_file("item")
    'item_features.safetensors'
    """
    return f"{word}_features.safetensors"


@dataclass(frozen=True)
class CatalogueSplit:
    """One split of a catalogue task.

    Args:
        name: ``"train"``, ``"validation"`` or ``"test"``.
        num_items: size of the catalogue.
        pairs: relevant pairs of each query, oldest first: ``item`` and ``label``; ``time`` if known; ``place`` among
            the query's pairs of all splits, if these are not consecutive.
        features: labelling: sparse features of each query, ``index`` and ``value``.
        num_features: number of features.
        tokens: labelling: word ids of each query [Q, T], padded at the end.
        lengths: [Q], number of words per query.
        weight: [Q], training weight of each query; None for equal weights.
        seen: seen items of each query that are not relevant: ``item``.
        cold: pairs of held-out cold items, ``item`` and ``label``, which are no candidates beside ``pairs``.

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
    cold: CSR | None = None

    offsets: Tensor = field(init=False)
    """[Q + 1]: offsets of each query's pairs; this and the following are columns of ``pairs``."""
    item: Tensor = field(init=False)
    label: Tensor = field(init=False)
    time: Tensor | None = field(init=False)
    place: Tensor | None = field(init=False)
    num_queries: int = field(init=False)
    """Number of rows, including those without pairs."""
    num_pairs: int = field(init=False)

    def __post_init__(self) -> None:
        columns = {name: self.pairs.columns.get(name) for name in ("item", "label", "time", "place")}
        sizes = {"num_queries": self.pairs.offsets.shape[0] - 1, "num_pairs": self.pairs.columns["item"].shape[0]}
        for name, value in {"offsets": self.pairs.offsets, **columns, **sizes}.items():
            object.__setattr__(self, name, value)

    def unique_pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, item and label of each distinct pair, ordered by query and item; of repeated pairs the latest."""
        key, label = latest_pairs(self.pairs, self.num_items)
        return *unpack(key, self.num_items), label


@dataclass(frozen=True)
class ListSplit:
    """One split of a list task: query q has rows ``offsets[q]`` to ``offsets[q + 1]`` of ``features`` and ``label``.

    ``weight`` [Q] is the training weight of each query; None for equal weights.

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
        """Number of lists."""
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> Tensor:
        """Number of documents per list."""
        return self.offsets.diff()

    @property
    def num_pairs(self) -> int:
        """Number of relevant documents."""
        return int((self.label > 0).sum())


class Dataset(dict[str, CatalogueSplit | ListSplit]):
    """A prepared data set: splits by name, original ids, and the content of ``dataset.json``.

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

    name: str
    """Kind of the data set, e.g. ``movielens-1m``."""
    task: str
    """``"recommendation"``, ``"labelling"`` or ``"search"``."""
    form: str
    """``"catalogue"`` or ``"list"``."""
    num_queries: int
    """Number of users, texts or search queries over all splits."""
    num_items: int
    """Number of items of the catalogue, or of documents of all lists."""
    num_pairs: int
    """Number of relevant pairs over all splits."""
    query_ids: Ids
    """Original ids of the queries of a recommendation task, shared by all splits."""
    item_ids: Ids
    """Original ids of the catalogue's items."""

    features: dict[str, FeatureRows]
    """Features of ``"item"`` and ``"user"``, if prepared with tables of them."""

    sha256: str
    """SHA-256 of ``dataset.json``, which has the checksums of the other files."""

    def __init__(self, path: str | os.PathLike[str], *, verify: bool | None = None) -> None:
        self.path = Path(path)
        found, self.info = None, self._read_info()
        while found != self.info:  # repeat if it was replaced while its files were opened
            words = [word for word in ("item", "user") if f"{word}_features" in self.info]
            found, names = self.info, ("ids", *self.info["splits"], *(f"{word}_features" for word in words))
            try:
                if verify is not False:
                    self._verify(always=verify)
                arrays = {name: read_arrays(self.path / f"{name}.safetensors", _AGAIN) for name in names}
                unreadable = None
            except DataError as error:
                unreadable = error
            self.info = self._read_info()
            if unreadable is not None and found == self.info:
                raise unreadable
        self.name, self.task, self.form = (str(self.info[key]) for key in ("name", "task", "form"))
        self.num_queries, self.num_items, self.num_pairs = (self.info[key] for key in ("queries", "items", "pairs"))
        self._ids = arrays.pop("ids")
        self._encoders = {word: arrays.pop(f"{word}_features") for word in words}
        self.features = {word: self._features(word) for word in words}
        self.update((name, self._split(name, arrays[name])) for name in SPLITS if name in arrays)
        for name in ("query", "item"):
            if name in self._ids:
                setattr(self, f"{name}_ids", Ids.from_arrays(name, self._ids))

    def __getattr__(self, name: str) -> Any:
        """Explain missing ids."""
        why = {"query_ids": "queries differ between splits; use split_query_ids"}
        why["item_ids"] = "its items are documents without ids"
        raise AttributeError(f"a {self.task} data set has no {name}: {why[name]}" if name in why else name)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the path only: the other process maps the same files."""
        return Dataset, (self.path.absolute(),)

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def _read_info(self) -> dict[str, Any]:
        """Content of ``dataset.json``, validated."""
        file = str(self.path / "dataset.json")
        info = read_json(Path(file), _AGAIN, missing=_MADE_BY)
        self.sha256 = file_digests(Path(file), "sha256")[0]
        if info.get("format") != FORMAT:
            raise DataError("is not a songrank data set", _MADE_BY, file=file)
        if (found := info.get("version")) != VERSION:
            what = f"has format version {found!r}, but this songrank reads {VERSION}"
            raise DataError(what, _AGAIN, file=file)
        try:
            well_formed = (
                FORMS.get(info["task"]) == info["form"]
                and set(info["splits"]) <= set(SPLITS)
                and all(isinstance(info[count], int) for count in ("queries", "items", "pairs"))
                and all(isinstance(info[key], dict) for key in ("labels", "relevant_per_query", "columns", "made"))
                and all(isinstance(info["made"][key], kind) for key, kind in _MADE.items())
                and isinstance(info["shared_queries"], bool)
                and isinstance(info["ids"], dict)
                and isinstance(info.get("vocabulary", {}), dict)
                and all(isinstance(info.get(f"{word}_features", {}), dict) for word in ("item", "user"))
            )
        except (KeyError, TypeError):
            well_formed = False
        if not well_formed:
            raise DataError("is malformed or was edited", _AGAIN, file=file)
        return info

    def _verify(self, *, always: bool | None) -> None:
        """Raise unless all files are those of ``dataset.json``."""
        told = {f"{name}.safetensors": split.get("sha256") for name, split in self.info["splits"].items()}
        told["ids.safetensors"] = self.info["ids"].get("sha256")
        for word in ("item", "user"):
            if f"{word}_features" in self.info:
                told[features_file(word)] = self.info[f"{word}_features"].get("sha256")
        words = self.info.get("vocabulary", {})
        if "sha256" in words:  # earlier versions did not write it
            told[str(words["file"])] = words["sha256"]
        for name, digest in told.items():
            verify_file(self.path / name, digest, "checksum mismatch with dataset.json", _AGAIN, always=always)

    def split_query_ids(self, split: str) -> Ids:
        """Original ids of the queries of a split, in its order."""
        check_choice("split", split, tuple(self))
        return self.query_ids if self.info["shared_queries"] else Ids.from_arrays(f"query.{split}", self._ids)

    def encoder_arrays(self, word: str) -> dict[str, Tensor]:
        """The arrays of the encoder of the features of items or users."""
        return {
            name.removeprefix(ENCODER): array
            for name, array in self._encoders[word].items()
            if name.startswith(ENCODER)
        }

    def _features(self, word: str) -> FeatureRows:
        arrays, sizes = self._encoders[word], self.info[f"{word}_features"]["sizes"]
        try:
            dense, offsets, index, value, trained = (arrays[name] for name in FEATURE_ARRAYS)
            rows = FeatureRows(dense, offsets, index, value, trained, int(sizes["width"]))
            rows_known = self.num_items if word == "item" else self.num_queries
            sound = rows.sizes() == sizes and len(rows) == rows_known and rows.is_valid()
        except (KeyError, TypeError, ValueError, IndexError):
            sound = False
        if not sound:
            raise DataError("does not match dataset.json", _AGAIN, file=str(self.path / features_file(word)))
        return rows

    def _split(self, name: str, arrays: dict[str, Tensor]) -> CatalogueSplit | ListSplit:
        written = self.info["splits"][name].get("arrays")
        found = {key: [str(value.dtype).removeprefix("torch."), list(value.shape)] for key, value in arrays.items()}
        if written != found:
            raise DataError("does not match dataset.json", _AGAIN, file=str(self.path / f"{name}.safetensors"))
        if self.form == "list":
            return ListSplit(name, arrays["offsets"], arrays["label"], arrays["features"], arrays.get("weight"))
        columns = {key: column for key, column in arrays.items() if key in ("item", "label", "time", "place")}
        features = _table(arrays, "features", "index", "value")
        count = 0 if features is None else int(self.info["features"]["count"])
        pairs, seen = CSR(arrays["offsets"], columns), _table(arrays, "met", "item")
        cold = _table(arrays, "cold", "item", "label")
        more = {key: arrays.get(key) for key in ("tokens", "lengths", "weight")}
        return CatalogueSplit(name, self.num_items, pairs, features, count, seen=seen, cold=cold, **more)

    def relevance(
        self,
        split: str,
        *,
        exclude: tuple[str, ...] | None = None,
        device: torch.device | str = "cpu",
        queries: tuple[int, int] | None = None,
    ) -> Relevance:
        """The relevant pairs of a split, for sampling and for evaluation.

        Args:
            split: ``"train"``, ``"validation"`` or ``"test"``.
            exclude: splits whose pairs are removed from the lists, with all pairs of cold items. By default the earlier
                splits if splits share their queries, so that seen items are not recommended again. For training none
                are excluded, since removing held-out items would leak them. Pairs that are relevant in ``split`` itself
                stay.
            device: device of the result; sorting takes milliseconds on a GPU and seconds on a CPU core.
            queries: the shard of these queries, the first and the last + 1, with its pairs numbered from 0. Only
                their pairs or documents are read.
        """
        check_choice("split", split, tuple(self))
        part = self[split]
        if isinstance(part, ListSplit):
            if queries is None:
                return Relevance.from_lists(part.label.to(device), part.lengths)
            first, last = (int(part.offsets[query]) for query in queries)
            lists = Relevance.from_lists(part.label[first:last].to(device), part.lengths[slice(*queries)])
            return lists.as_shard(queries[0], part.num_queries, first, part.label.shape[0])
        if exclude is None:
            exclude = tuple(self)[: tuple(self).index(split)] if self.info["shared_queries"] else ()
        for name in exclude:
            check_choice("exclude", name, tuple(self))
        if exclude and not self.info["shared_queries"]:
            fail("exclude", exclude, "no splits, since the splits of this data set share no queries")
        tables = [other.pairs for name in (split, *exclude) if isinstance(other := self[name], CatalogueSplit)]
        tables += self.cold_pairs() if exclude else []
        if queries is not None:
            tables = [table.slice(*queries) for table in tables]
        try:
            found = _catalogue_relevance(*tables, num_items=part.num_items, device=torch.device(device))
        except torch.OutOfMemoryError:  # sorting takes six times what is kept
            found = _catalogue_relevance(*tables, num_items=part.num_items, device=torch.device("cpu")).to(device)
        return found if queries is None else found.as_shard(queries[0], part.num_queries)

    def cold_pairs(self) -> list[CSR]:
        """The pairs of cold items by split."""
        return [part.cold for part in self.values() if isinstance(part, CatalogueSplit) and part.cold is not None]


def _catalogue_relevance(pairs: CSR, *others: CSR, num_items: int, device: torch.device) -> Relevance:
    """The relevance of these pairs, without those of ``others``."""
    if not others and device.type == "cpu":
        table = sorted_rows(pairs, num_items)
        if table is not None:
            return Relevance.from_rows(table, num_items)
    key, label = latest_pairs(pairs.to(device), num_items)
    barred = None
    if others:
        keys = torch.cat([table_keys(other.to(device), num_items) for other in others])
        barred = without(keys.unique(), key)  # type: ignore[no-untyped-call]
    return Relevance.from_keys(key, label, len(pairs), num_items, barred)


def _table(arrays: Mapping[str, Tensor], prefix: str, *columns: str) -> CSR | None:
    if f"{prefix}.offsets" not in arrays:
        return None
    return CSR(arrays[f"{prefix}.offsets"], {name: arrays[f"{prefix}.{name}"] for name in columns})


def open_dataset(path: str | os.PathLike[str], *, verify: bool | None = None) -> Dataset:
    """Open a prepared data set: read ``dataset.json``, verify the other files and memory-map the arrays.

    Args:
        path: directory of the data set.
        verify: True hashes all files, False none. By default a file of 1 MiB or more that was verified before and is
            unchanged by size, times and inode is not hashed again, unless the environment variable ``SONGRANK_VERIFY``
            is ``always``.

    >>> open_dataset("x")
    Traceback (most recent call last):
    songrank.core.errors.DataError: x/dataset.json: is missing; expected a directory written by `songrank data prepare`
    """
    return Dataset(path, verify=verify)
