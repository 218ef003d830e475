"""A trained model on disk, without pickle and independent of its training data.

=========================  =============================================================================================
``model.safetensors``      the weights; the graph of the training pairs if the model has one
``model.json``             model, sizes, input description, checksums of the other files; written last
``ids.safetensors``        original ids of items, and of the users of a recommendation task
``seen.safetensors``       recommendation: seen items of each user in all splits
``histories.safetensors``  models of histories: the last items of each user in all splits, oldest first, with their
                           times if the model reads times
``item_features.…``        data with features of items, and ``user_features.safetensors`` of users: what the encoders
                           of their columns learned
``feature_maps.…``         the maps from these features to vectors of items and users
``vocabulary.txt``         texts: the words, one per line; of tf-idf weights also the number of texts with each
=========================  =============================================================================================
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from songrank import __version__
from songrank.core.csr import CSR
from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError, first_line
from songrank.core.forks import check_not_forked
from songrank.core.ids import Ids
from songrank.core.text import notebook_table
from songrank.functional.feature_map import FeatureMap
from songrank.io.arrays import read_arrays
from songrank.io.files import check_sha256, write_whole
from songrank.io.json_files import read_json, write_json
from songrank.models.base import RankingModel
from songrank.models.blend import UserInput
from songrank.models.described import BLEND, build_described
from songrank.models.ensemble import Ensemble
from songrank.models.registry import INPUTS

FORMAT = "songrank-model"
VERSION = 2
WEIGHTS, IDS, SEEN, WORDS = "model.safetensors", "ids.safetensors", "seen.safetensors", "vocabulary.txt"
HISTORIES = "histories.safetensors"
ENCODERS = {"item": "item_features.safetensors", "user": "user_features.safetensors"}
MAPS = "feature_maps.safetensors"
MODEL_FILES = (WEIGHTS, IDS, SEEN, HISTORIES, WORDS, *ENCODERS.values(), MAPS)
# The task and the files of each kind of input.
KINDS = {
    "ids": ("recommendation", {WEIGHTS, IDS, SEEN}),
    "histories": ("recommendation", {WEIGHTS, IDS, SEEN, HISTORIES}),
    "users": ("recommendation", {WEIGHTS, IDS, SEEN, HISTORIES}),
    "documents": ("search", {WEIGHTS}),
    "features": ("labelling", {WEIGHTS, IDS}),
    "words": ("labelling", {WEIGHTS, IDS, WORDS}),
}
READS = ("features", "transform", "vocabulary", "called")  # sections of dataset.json about input
_MAP = ("weight", "mean")
_AGAIN = "copy the directory again, or train again"


@dataclass(frozen=True)
class ModelFolder:
    """The validated contents of a model folder: ``model.json``, the model in evaluation mode, and its tables.

    ``item_ids`` and ``query_ids`` are original ids of items (or labels) and users. Of recommendation: ``seen`` holds
    the seen items of each user, ascending; ``item_counts`` [N] the number of training users of each item;
    ``histories`` the last items of each user, oldest first. Of texts: ``words`` holds the token of each word, or for
    tf-idf features ``documents`` the document frequency of each term, in order of features. ``encoders`` holds
    the arrays of the encoders of ``"item"`` and ``"user"`` features, which ``info`` describes, and ``maps`` the map
    from features to rows of each table of the model.
    """

    path: Path
    info: Mapping[str, Any]
    model: RankingModel
    item_ids: Ids | None = None
    query_ids: Ids | None = None
    seen: CSR | None = None
    item_counts: Tensor | None = None
    words: Mapping[str, int] | None = None
    histories: CSR | None = None
    documents: Mapping[str, int] | None = None
    encoders: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    maps: Mapping[str, FeatureMap] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ModelFolder({str(self.path)!r}, task={self.task!r}, model={self.info['model']['name']!r})"

    def _repr_html_(self) -> str:
        sizes = (f"{name.replace('num_', '')} {size:,}" for name, size in self.info["sizes"].items())
        rows = {"task": self.task, "model": self.info["model"]["name"], "sizes": ", ".join(sizes)}
        weights = sum(tensor.numel() for tensor in self.model.state_dict().values())
        rows |= {"weights": f"{weights:,}", "device": self.device, "directory": self.path}
        return notebook_table(rows.items(), "Model")

    @property
    def task(self) -> str:
        """``"recommendation"``, ``"search"`` or ``"labelling"``."""
        return str(self.info["task"])

    @property
    def inputs(self) -> str:
        """The model input: ``"ids"``, ``"histories"``, ``"users"`` (ids and histories), ``"documents"``,
        ``"features"`` or ``"words"``.
        """
        return str(self.info["inputs"])

    @property
    def reads_texts(self) -> bool:
        """Whether queries are texts, as words or as tf-idf features."""
        return self.words is not None or self.documents is not None

    def need(self, task: str) -> None:
        """Raise unless the model is for this task, and this process can use it."""
        check_not_forked()
        if self.task != task:
            command = {"recommendation": "recommend", "search": "rank", "labelling": "label"}[self.task]
            found = f"contains a model for {self.task}, not for {task}"
            raise DataError(found, f"use `songrank {command}`", file=str(self.path))

    def queries(self, user: Tensor) -> Any:
        """The model input for known users: their indices, their last items, or both."""
        if self.histories is None:
            return user.to(self.device)
        history = self.history_input(self.histories, user.cpu())
        return UserInput(user.to(self.device), history) if self.inputs == "users" else history

    def of_histories(self) -> "ModelFolder | None":
        """The folder for users who are known by their histories only; None if the model needs ids.

        A blend leaves out the members that read ids.
        """
        if self.inputs == "histories":
            return self
        part = self.model.of_histories()
        return None if part is None else replace(self, model=part, info={**self.info, "inputs": "histories"})

    def history_input(self, histories: CSR, rows: Tensor) -> Any:
        """The input [R, T] of a model that reads histories, T at least 1; with times, if the model reads them."""
        length = self.model.history_length
        assert length is not None
        longest = int(histories.lengths[rows].max()) if rows.numel() else 0
        width = max(1, min(length, longest))
        items = histories.last(rows, length, width).to(self.device)
        if not self.model.reads_times:
            return items
        if "time" not in histories.columns:
            raise UserError("the table has no times, but the model reads them; add the time column of training")
        return items, histories.last(rows, length, width, "time").to(self.device)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device


def join_models(folders: Sequence[ModelFolder]) -> ModelFolder:
    """Combine models of the same kind, trained on the same data, into an ensemble."""
    first = folders[0]

    def told(folder: ModelFolder) -> dict[str, Any]:
        """The description and the checksums of all files except weights."""
        return {**folder.info, "files": {**folder.info["files"], WEIGHTS: None, MAPS: None}, "songrank": None}

    for other in folders[1:]:
        if told(other) != told(first):
            fix = "expected runs of the same recipe on the same data"
            raise DataError(f"model or ids differ from {first.path}", fix, file=str(other.path))
    info = {**first.info, "members": len(folders)}
    return replace(first, info=info, model=Ensemble([folder.model for folder in folders]))


def save_model(model: ModelFolder, folder: Path) -> None:
    """Write a model folder; ``model.json``, with the checksums of the other files, is written last."""
    from safetensors.torch import save

    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.model.state_dict().items()}
    contents: dict[str, bytes] = {WEIGHTS: save(weights)}
    ids = {} if model.item_ids is None else model.item_ids.arrays("item")
    ids |= {} if model.query_ids is None else model.query_ids.arrays("query")
    if ids:
        contents[IDS] = save({name: torch.from_numpy(array) for name, array in ids.items()})
    if model.seen is not None:
        assert model.item_counts is not None
        contents[SEEN] = save({"offsets": model.seen.offsets, "item": model.seen["item"], "count": model.item_counts})
    if model.histories is not None:
        contents[HISTORIES] = save({"offsets": model.histories.offsets, **model.histories.columns})
    if model.words is not None:
        contents[WORDS] = "".join(f"{word}\n" for word in model.words).encode()
    if model.documents is not None:
        contents[WORDS] = "".join(f"{term}\t{count}\n" for term, count in model.documents.items()).encode()
    for word, encoder in model.encoders.items():
        contents[ENCODERS[word]] = save({name: array.contiguous() for name, array in encoder.items()})
    if model.maps:
        parts = ((f"{name}.{part}", getattr(one, part)) for name, one in model.maps.items() for part in _MAP)
        contents[MAPS] = save({name: tensor.contiguous() for name, tensor in parts})
    for name, data in contents.items():
        write_whole(folder / name, data)
    info = {
        **model.info,
        "format": FORMAT,
        "version": VERSION,
        "songrank": __version__,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    write_json(folder / "model.json", info)


def read_words(file: Path) -> dict[str, int]:
    """The token of each word of a vocabulary, one per line; 0 is padding and 1 an unknown word."""
    return {word: number for number, word in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1], 2)}


def read_documents(file: Path) -> dict[str, int]:
    """The document frequency of each term of tf-idf features, one per line after a tab."""
    lines = (line.rpartition("\t") for line in file.read_text(encoding="utf-8").split("\n")[:-1])
    return {term: int(count) for term, _, count in lines}


def read_model(
    path: str | Path,
    device: torch.device | str = "cpu",
    task: str | None = None,
    readable: Callable[[ModelFolder], bool] = lambda folder: True,
) -> ModelFolder:
    """Read and validate a model folder, or the run directory of a finished run, for this task if given.

    Files contain no pickles and no paths, and memory is allocated only for existing weights. ``readable`` checks
    whether the described input is supported.
    """
    check_not_forked()
    path = Path(path)
    try:
        info = _description(path)
        for name, digest in info["files"].items():
            check_sha256(path / name, digest, "checksum mismatch with model.json", _AGAIN)
        arrays = {name: read_arrays(path / name, _AGAIN) for name in info["files"] if name != WORDS}
        tables = _tables(path, info, arrays)
        place = choose_device(device) if isinstance(device, str) else device
        folder = ModelFolder(path, info, _load(path, info, arrays[WEIGHTS]).to(place).eval(), **tables)
        if task is not None:
            folder.need(task)
        sound = _tables_fit(folder) and readable(folder)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OSError):
        sound = False
    if not sound:
        raise DataError("tables are inconsistent with model.json", _AGAIN, file=str(path))
    return folder


def _tables(path: Path, info: Mapping[str, Any], arrays: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
    """All fields except weights, by name; ``ValueError`` if they are inconsistent."""
    ids = {word: Ids.from_arrays(word, arrays[IDS]) for word in ("item", "query") if word in arrays.get(IDS, {})}
    if not all(known.is_valid() for known in ids.values()):
        raise ValueError("ids")
    tables: dict[str, Any] = {f"{word}_ids": known for word, known in ids.items()}
    for name, lists in (("seen", SEEN), ("histories", HISTORIES)):
        if lists in arrays:
            columns = {key: column for key, column in arrays[lists].items() if key in ("item", "time")}
            tables[name] = CSR(arrays[lists]["offsets"], columns)
            if len(tables[name]) != len(ids["query"]):
                raise ValueError(name)
    if SEEN in arrays:
        tables["item_counts"] = arrays[SEEN]["count"]
    if MAPS in arrays:
        names = dict.fromkeys(name.rpartition(".")[0] for name in arrays[MAPS])
        tables["maps"] = {name: FeatureMap(*(arrays[MAPS][f"{name}.{part}"] for part in _MAP)) for name in names}
    tables["encoders"] = {word: arrays[file] for word, file in ENCODERS.items() if file in arrays}
    if WORDS in info["files"]:
        name, read = ("words", read_words) if info["inputs"] == "words" else ("documents", read_documents)
        tables[name] = read(path / WORDS)
    return tables


def _tables_fit(folder: ModelFolder) -> bool:
    """Whether ids, seen items, histories and vocabulary match the sizes of the model."""
    sizes, info, item_ids, query_ids = folder.info["sizes"], folder.info, folder.item_ids, folder.query_ids
    items = sizes.get("num_items", sizes.get("num_labels"))
    users = sizes.get("num_queries", None if query_ids is None else len(query_ids))
    sound = (item_ids is None) == (folder.inputs == "documents")
    sound = sound and (query_ids is None) == (KINDS[folder.inputs][0] != "recommendation")
    sound = sound and (item_ids is None or len(item_ids) == items)
    sound = sound and (query_ids is None or len(query_ids) == users)
    sound = sound and all(_fits(lists, users, items) for lists in (folder.seen, folder.histories) if lists is not None)
    if folder.seen is not None:
        count = folder.item_counts
        sound = sound and count is not None and count.dtype == torch.int64 and count.shape == (items,)
    if folder.histories is not None:
        sound = sound and isinstance(info.get("min_rating") or 0.0, int | float)
        sound = sound and ("time" in folder.histories.columns) == folder.model.reads_times
    if folder.words is not None:
        told = info["vocabulary"]
        sound = sound and len(folder.words) + 2 == sizes["vocabulary"] == told["size"]
        sound = sound and isinstance(told["width"], int) and 0 < told["width"] < 2**20
        sound = sound and isinstance(told["lowercase"], bool)
    if folder.documents is not None:
        sound = (
            sound
            and _are_weights(folder.documents, info["vocabulary"])
            and info["features"]["count"] == len(folder.documents)
        )
    if folder.inputs in ("documents", "features"):
        sound = sound and info["features"]["count"] == sizes["num_features"]
        scale = info["features"].get("scale", "none")
        sound = sound and scale in ("none", "l2", "log-l2", "standardise")
        sound = sound and (scale != "standardise" or _are_standards(info["features"]))
    if folder.inputs == "features":
        sound = sound and _are_columns(info["features"])
    return sound and all(isinstance(name, str | None) for name in info.get("called", {}).values())


def _are_weights(documents: Mapping[str, int], told: Mapping[str, Any]) -> bool:
    """Whether document frequencies match the description of tf-idf features."""
    texts, ngrams, most = (told[key] for key in ("texts", "ngrams", "max_tokens"))
    sound = all(isinstance(number, int) and number > 0 for number in (texts, ngrams, 1 if most is None else most))
    sound = (
        sound and told["weights"] == "tf-idf" and isinstance(told["lowercase"], bool) and len(documents) == told["size"]
    )
    return sound and all(0 < count <= texts for count in documents.values())


def _are_standards(told: Mapping[str, Any]) -> bool:
    """Whether each feature has a finite mean and a positive standard deviation."""
    columns = told["mean"], told["deviation"]
    sound = all(isinstance(column, list) and len(column) == told["count"] for column in columns)
    return sound and all(math.isfinite(a) and math.isfinite(b) and b > 0 for a, b in zip(*columns, strict=True))


def _are_columns(told: Mapping[str, Any]) -> bool:
    """Whether the description of the source's columns, if any, fits the number of features."""
    names, attributes = told.get("names"), told.get("attributes")
    sound = names is None or (len(names) == told["count"] and all(isinstance(name, str) for name in names))
    if attributes is None:
        return sound
    texts = all(isinstance(text, str) for name, values in attributes for text in (name, *(values or ())))
    return sound and texts and sum(len(values) - 1 if values else 1 for _, values in attributes) == told["count"]


def _fits(lists: CSR, users: int, items: int) -> bool:
    """Whether each user has one list of valid items."""
    offsets, item = lists.offsets, lists["item"]
    sound = (offsets.dtype, item.dtype) == (torch.int64, torch.int32)
    sound = sound and offsets.shape == (users + 1,) and item.ndim == 1
    time = lists.columns.get("time")
    sound = sound and (time is None or (time.dtype, time.shape) == (torch.int64, item.shape))
    sound = sound and int(offsets[0]) == 0 and int(offsets[-1]) == item.shape[0]
    sound = sound and bool((offsets.diff() >= 0).all())
    return sound and (item.numel() == 0 or (int(item.min()) >= 0 and int(item.max()) < items))


def _description(path: Path) -> dict[str, Any]:
    file = path / "model.json"
    if (path / "config.yaml").exists() and not file.exists():
        raise DataError("has no model yet", f"finish it with `songrank train --resume {path}`", file=str(path))
    info = read_json(file, "expected a run directory written by `songrank train`")
    if info.get("format") != FORMAT:
        raise DataError("is not a songrank model", "expected a run of `songrank train`", file=str(file))
    if info.get("version") != VERSION:
        other = f"has format version {info.get('version')!r}; songrank {__version__} supports {VERSION}"
        raise DataError(other, f"{open_with(info.get('songrank'))}train again", file=str(file))
    inputs = str(info.get("inputs"))
    sound = (
        all(isinstance(info.get(key), dict) for key in ("model", "sizes", "files"))
        and all(isinstance(info.get(key, {}), dict) for key in READS)
        and KINDS.get(inputs) == (info.get("task"), set(info["files"]) - _optional_files(info))
        and info["model"].get("name") in (*INPUTS.get(inputs, ()), BLEND)
    )
    if not sound:
        raise DataError("is damaged or was edited", _AGAIN, file=str(file))
    return info


def open_with(version: Any) -> str:
    """Advice to use the songrank version that wrote a file; none if it has the number of this version.

    >>> open_with(__version__), open_with("9.1")
    ('', 'open it with songrank 9.1, or ')
    """
    return "" if version in (None, __version__) else f"open it with songrank {version!s:.20}, or "


def _optional_files(info: Mapping[str, Any]) -> set[str]:
    """Files of features that are made from texts, or of items and users."""
    words = {WORDS} if info.get("inputs") == "features" and "vocabulary" in info else set()
    features = {file for word, file in ENCODERS.items() if f"{word}_features" in info}
    return words | features | ({MAPS} & set(info["files"]) if features else set())


DRAWS: set[Any] = {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_}
DRAWS |= {nn.init.kaiming_uniform_, nn.init.xavier_uniform_}
"""Functions that draw the initial values of a tensor."""


class _WithoutDraws(TorchFunctionMode):
    """Skip initialisation of modules: on the meta device it would import torch's compiler, which takes a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _load(path: Path, info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> RankingModel:
    """The model with its weights; it is first built on the meta device to validate sizes."""
    try:
        with torch.device("meta"), _WithoutDraws():
            model = build_described(info, most=len(weights))
        if model.capabilities.inputs != info["inputs"]:
            raise ValueError(f"it reads {model.capabilities.inputs}")
        expected = {name: (tensor.shape, tensor.dtype) for name, tensor in model.state_dict().items()}
    except Exception as error:  # models may raise any error for invalid options
        wrong = f"describes an invalid model ({first_line(error)})"
        raise DataError(wrong, _AGAIN, file=str(path / "model.json")) from None
    if {name: (tensor.shape, tensor.dtype) for name, tensor in weights.items()} != expected:
        raise DataError("weights differ from model.json", _AGAIN, file=str(path / WEIGHTS))
    if not all(bool(tensor.isfinite().all()) for tensor in weights.values() if tensor.is_floating_point()):
        raise DataError("has weights that are NaN or infinite", _AGAIN, file=str(path / WEIGHTS))
    model.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, assign=True)
    for part in model.modules():
        if isinstance(part, RankingModel):
            part.check_buffers()
    return model
