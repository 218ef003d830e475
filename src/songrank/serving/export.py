"""Export of trained models to ONNX or torch.export; files are verified before they are renamed into place."""

import copy
import importlib
import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from songrank import __version__
from songrank.core.errors import UserError, first_line
from songrank.io.files import file_digests, replacing, write_whole
from songrank.models.base import RankingModel, capabilities_of
from songrank.models.blend import UserInput
from songrank.models.model_folder import KINDS, ModelFolder
from songrank.models.registry import MODELS

IDS_FORMAT = "songrank-ids"
SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-5  # tolerance of scores, relative to the largest score or 1
ONNX_BYTES = 2**31 - 2**24  # maximum weight bytes: protobuf is limited to 2 GB, including the graph
_SHAPES = ((3, 4), (1, 1), (1, 7), (4, 1), (5, 23))  # rows and columns; the first is traced, all are compared

Example = tuple[tuple[Tensor, ...], Tensor]  # inputs and expected scores


class ExportError(UserError):
    """A model that cannot be traced, or a file with different scores; no file is kept."""

    exit_code = 1


def export_model(
    model: nn.Module,
    inputs: str,
    sizes: Mapping[str, int],
    path: str | Path,
    format: str = "onnx",
    *,
    mask: bool = True,
) -> Path:
    """Export a model to a single file and verify it. The number of rows B and the lengths L and T are dynamic.

    ========= ================================================= ======================
    inputs    input of the file                                 output
    ========= ================================================= ======================
    ids       query int64 [B]                                   scores [B, num_items]
    histories history int64 [B, T], −1 after the last item;     scores [B, num_items]
              time int64 [B, T] if the model reads times
    users     query int64 [B], history int64 [B, T]             scores [B, num_items]
    documents features float32 [B, L, F], mask bool [B, L]      scores [B, L]
    features  features float32 [B, F]                           scores [B, num_labels]
    words     tokens int64 [B, T]                               scores [B, num_labels]
    ========= ================================================= ======================

    Rows with an unknown query, item or word, a number below 0 or beyond the sizes, have NaN scores.

    Args:
        model: a model of ``songrank.models``, or one with the same methods, on any device; it is not modified.
        inputs: input of the model, see the table above.
        sizes: sizes of the model: ``num_queries``, ``num_items`` (histories), both (users), ``num_features`` or
            ``vocabulary`` is required.
        path: a file with suffix ``.onnx`` or ``.pt2``; an existing file is replaced.
        format: ``"onnx"`` or ``"torch"``.
        mask: ``False`` for documents without padding; the input is then features only.

    >>> import tempfile
    >>> from songrank.models import MLPScorer
    >>> path = Path(tempfile.mkdtemp()) / "mlp.pt2"
    >>> file = export_model(MLPScorer(num_features=5), "documents", {"num_features": 5}, path, format="torch")
    >>> scorer = torch.export.load(file).module()
    >>> scorer(torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool)).shape
    torch.Size([2, 3])
    """
    path = Path(path)
    kind = _checked(inputs, format, path, mask=mask)
    name = next((word for word, known in MODELS.items() if type(model) is known), type(model).__name__)
    copied = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    call: type[_Catalogue] = _CALLS.get(inputs, _Catalogue)
    if isinstance(model, RankingModel) and model.reads_times:
        call, kind = _TimedHistories, _TIMED
    traced = copied.for_export().eval().requires_grad_(False) if isinstance(copied, RankingModel) else copied
    title = f"{name} with inputs {inputs}"
    recorded = call(traced, [_size(sizes, word, title) for word in kind.sizes])
    size = sum(tensor.nbytes for tensor in recorded.state_dict().values())
    if format == "onnx" and size > ONNX_BYTES:
        raise UserError(f"weights of {name} take {size / 2**30:.1f} GB, but ONNX is limited to 2 GB; use format torch")
    examples = _examples(call(copied), kind, sizes, title)
    with _quiet():
        try:
            about = {"songrank": __version__, "task": KINDS[inputs][0], "model": name}
            content = _content(recorded, kind.axes, examples[0][0], format, about)
        except Exception as error:  # exporters may raise any error
            raise ExportError(f"{name} cannot be exported as {format} ({first_line(error)})") from error
        with replacing(path) as (new, stream):
            stream.write(content)
            stream.flush()
            _check_scores(new, format, examples, name)
    return path


def ids_file(path: Path) -> Path:
    """The file of original ids beside an exported file, for example ``model.ids.json``."""
    return path.with_suffix(".ids.json")


def export_folder(folder: ModelFolder, path: str | Path, format: str = "onnx") -> Path:
    """Export the model of a folder, and write its original ids and the users' seen items beside it, as JSON.

    The position of an id in its list is its number in the exported model: ``items`` (of labels: ``labels``), ``users``
    if the model reads them, with ``seen``, the numbers of their seen items. ``sha256`` is the checksum of the file.
    """
    path = export_model(folder.model, folder.inputs, folder.info["sizes"], path, format)
    if folder.item_ids is None:
        return path
    told: dict[str, Any] = {"format": IDS_FORMAT, "version": 1, "sha256": file_digests(path, "sha256")[0]}
    told["labels" if folder.task == "labelling" else "items"] = list(folder.item_ids)
    if folder.inputs in ("ids", "users"):
        assert folder.query_ids is not None
        assert folder.seen is not None
        told["users"] = list(folder.query_ids)
        starts, items = folder.seen.offsets.tolist(), folder.seen["item"].tolist()
        told["seen"] = [items[first:last] for first, last in pairwise(starts)]
    write_whole(ids_file(path), json.dumps(told, ensure_ascii=False) + "\n")
    return path


class _Kind(NamedTuple):
    """Inputs and outputs of a file."""

    sizes: tuple[str, ...]  # the size that determines the values of each input
    axes: dict[str, str]  # dynamic leading axes of each input
    takes: str
    gives: str


_LISTS = "features float32 [B, L, {num_features}] and mask bool [B, L]"
_ROWS = "features float32 [B, {num_features}]"
_USERS = "query int64 [B] and history int64 [B, T]"
_KINDS = {
    "ids": _Kind(("num_queries",), {"query": "B"}, "query int64 [B]", "[B, {num_items}]"),
    "histories": _Kind(("num_items",), {"history": "BT"}, "history int64 [B, T]", "[B, {num_items}]"),
    "documents": _Kind(("num_features", "num_features"), {"features": "BL", "mask": "BL"}, _LISTS, "[B, L]"),
    "features": _Kind(("num_features",), {"features": "B"}, _ROWS, "[B, {num_labels}]"),
    "words": _Kind(("vocabulary",), {"tokens": "BT"}, "tokens int64 [B, T]", "[B, {num_labels}]"),
    "users": _Kind(("num_queries", "num_items"), {"query": "B", "history": "BT"}, _USERS, "[B, {num_items}]"),
}


_TIMED = _KINDS["histories"]._replace(
    sizes=("num_items", "num_items"),
    axes={"history": "BT", "time": "BT"},
    takes="history int64 [B, T] and time int64 [B, T]",
)


def export_shapes(inputs: str, sizes: Mapping[str, int], *, times: bool = False) -> tuple[str, str]:
    """Names, types and shapes of the inputs of an exported file, and the shape of its scores.

    ``times`` is for models of histories that read times.

    >>> export_shapes("ids", {"num_queries": 3, "num_items": 9})
    ('query int64 [B]', '[B, 9]')
    """
    kind = _TIMED if times else _KINDS[inputs]
    return kind.takes.format(**sizes), kind.gives.format(**sizes)


class _Catalogue(nn.Module):
    """``forward`` is traced; ``scores`` gives the reference scores of the model. Unknown ids have NaN scores."""

    def __init__(self, model: Any, limits: Sequence[int] = ()) -> None:
        super().__init__()
        self.model, self.limits = model, tuple(limits)

    def forward(self, query: Tensor) -> Tensor:
        query, known = _in_range(query, self.limits[0])
        if not capabilities_of(self.model).tiled:
            return _where_known(known, self.scores(query))
        scores: Tensor = self.model(query, torch.arange(self.model.num_items).unsqueeze(0))
        return _where_known(known, scores)

    def scores(self, query: Tensor) -> Tensor:
        scores: Tensor = self.model.score_all(query)
        return scores


class _Features(_Catalogue):
    def forward(self, query: Tensor) -> Tensor:
        return self.scores(query)


class _Words(_Catalogue):
    def forward(self, query: Tensor) -> Tensor:
        query, known = _in_range(query, self.limits[0])
        return _where_known(known.all(1), self.scores(query))


class _Histories(_Catalogue):
    def forward(self, history: Tensor) -> Tensor:
        history, known = _known_items(history, self.limits[0])
        return _where_known(known, self.scores(_filled(history, self.model.history_length)))


class _Users(_Catalogue):
    def forward(self, query: Tensor, history: Tensor) -> Tensor:  # type: ignore[override]
        query, known = _in_range(query, self.limits[0])
        history, sound = _known_items(history, self.limits[1])
        return _where_known(known & sound, self.scores(query, _filled(history, self.model.history_length)))

    def scores(self, query: Tensor, history: Tensor) -> Tensor:  # type: ignore[override]
        scores: Tensor = self.model.score_all(UserInput(query, history))
        return scores


def _in_range(numbers: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """The numbers, limited to 0 … limit − 1, and which of them were; a gather would count −1 from the end."""
    return numbers.clamp(0, limit - 1), (numbers >= 0) & (numbers < limit)


def _known_items(history: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Histories with numbers below ``limit``, and [B]: whether all were and padding is at the end only."""
    present = history >= 0
    ends = torch.arange(history.shape[1]) < present.sum(1, keepdim=True)
    return history.clamp(max=limit - 1), ((history < limit) & (present == ends)).all(1)


def _where_known(known: Tensor, scores: Tensor) -> Tensor:
    return torch.where(known.unsqueeze(1), scores, torch.nan)


def _filled(history: Tensor, length: int) -> Tensor:
    """Histories padded or truncated to the length of the model, because a traced graph cannot branch."""
    count = (history >= 0).sum(1, keepdim=True)
    filled = nn.functional.pad(history, (0, length), value=-1)
    return filled.gather(1, (count - length).clamp_min(0) + torch.arange(length))


class _TimedHistories(_Catalogue):
    def forward(self, history: Tensor, time: Tensor) -> Tensor:  # type: ignore[override]
        history, known = _known_items(history, self.limits[0])
        length: int = self.model.history_length
        count = (history >= 0).sum(1, keepdim=True)
        at = (count - length).clamp_min(0) + torch.arange(length)
        filled = [nn.functional.pad(part, (0, length), value=-1).gather(1, at) for part in (history, time)]
        return _where_known(known, self.scores(*filled))

    def scores(self, history: Tensor, time: Tensor) -> Tensor:  # type: ignore[override]
        scores: Tensor = self.model.score_all((history, time))
        return scores


class _Lists(_Catalogue):
    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.scores(features, mask)

    def scores(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        scores: Tensor = self.model(features, torch.ones_like(features[..., 0]).bool() if mask is None else mask)
        return scores


_CALLS = {"documents": _Lists, "histories": _Histories, "users": _Users, "features": _Features, "words": _Words}


def _checked(inputs: str, format: str, path: Path, *, mask: bool) -> _Kind:
    if inputs not in _KINDS:
        raise UserError(f"inputs is {inputs!r}; expected one of {', '.join(_KINDS)}")
    if not mask and inputs != "documents":
        raise UserError(f"mask is False, but {inputs} have no mask; omit it")
    if format not in SUFFIXES:
        raise UserError(f"format is {format!r}; expected one of {', '.join(SUFFIXES)}")
    if path.suffix != SUFFIXES[format]:
        raise UserError(f"path is {str(path)!r}; expected suffix {SUFFIXES[format]} for format {format}")
    needed = ("onnx", "onnxscript", "onnxruntime") if format == "onnx" else ()
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise UserError(f"format onnx requires {', '.join(missing)}; install with `pip install 'songrank[export]'`")
    return _KINDS[inputs] if mask else _KINDS[inputs]._replace(axes={"features": "BL"})


def _size(sizes: Mapping[str, int], name: str, title: str) -> int:
    if name not in sizes:
        raise UserError(f"sizes has no {name}; required for {title}")
    return sizes[name]


def _examples(recorded: _Catalogue, kind: _Kind, sizes: Mapping[str, int], title: str) -> list[Example]:
    """Inputs of all shapes with reference scores; raises a ``UserError`` if the model fails."""
    inputs = [(name, len(axes), sizes[size]) for (name, axes), size in zip(kind.axes.items(), kind.sizes, strict=False)]
    random = torch.Generator().manual_seed(0)
    try:
        drawn = [tuple(_draw(name, shape[:axes], size, random) for name, axes, size in inputs) for shape in _SHAPES]
        examples = [(given, recorded.scores(*given)) for given in drawn]
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        told = " and ".join(f"{name}={sizes[name]}" for name in dict.fromkeys(kind.sizes))
        raise UserError(f"{title} cannot be run with {told} ({first_line(error)})") from error
    if not all(scores.isfinite().all() for _, scores in examples):
        raise UserError(f"scores of {title} are NaN or infinite; retrain the model")
    return examples


def _draw(name: str, shape: tuple[int, ...], size: int, random: torch.Generator) -> Tensor:
    """A random valid input; of texts and lists, the first is full and the third is empty."""
    if name == "time":  # some differences are 0, others those of days in microseconds
        return torch.rand(shape, generator=random).mul_(24).exp_().long().cumsum(1)
    if name == "query":
        return torch.randint(0, size, shape, generator=random)
    if name == "features":
        return torch.randn(*shape, size, generator=random)
    length = torch.randint(0, shape[1] + 1, (shape[0], 1), generator=random)
    length[0], length[2:3] = shape[1], 0
    inside = torch.arange(shape[1]) < length
    if name == "history":
        return torch.where(inside, torch.randint(0, size, shape, generator=random), -1)
    return inside if name == "mask" else torch.randint(1, size, shape, generator=random) * inside


def _content(
    recorded: nn.Module, axes: Mapping[str, str], given: tuple[Tensor, ...], format: str, about: dict[str, str]
) -> bytes:
    """The file contents, in memory, so that disk errors are ``OSError``."""
    letters = {letter: torch.export.Dim(letter, min=1) for word in axes.values() for letter in word}
    shapes = tuple({axis: letters[letter] for axis, letter in enumerate(word)} for word in axes.values())
    program = torch.export.export(recorded, given, dynamic_shapes=shapes, strict=False)
    if format == "torch":
        buffer = io.BytesIO()
        torch.export.save(program, buffer, extra_files={"songrank.json": json.dumps(about)})
        return buffer.getvalue()
    names: dict[str, Any] = {"input_names": list(axes), "output_names": ["scores"], "dynamic_shapes": shapes}
    made: Any = torch.onnx.export(program, dynamo=True, external_data=False, verbose=False, **names)
    importlib.import_module("onnx").helper.set_model_props(proto := made.model_proto, about)
    return bytes(proto.SerializeToString())


def _check_scores(file: Path, format: str, examples: Sequence[Example], name: str) -> None:
    """Raise unless the file reproduces the scores of the model."""
    try:
        answers = (_onnx_answers if format == "onnx" else _torch_answers)(file, examples)
    except Exception as error:  # runtimes may raise any error, too
        raise ExportError(f"{name} was exported as {format}, but cannot be run ({first_line(error)})") from error
    for (_, scores), answer in zip(examples, answers, strict=True):
        off = (answer - scores).abs().max().item() if answer.shape == scores.shape else float("inf")
        allowed = TOLERANCE * max(1.0, scores.abs().max().item())
        if not off <= allowed:
            raise ExportError(f"{name} as {format} differs by {off:.2g}, more than {allowed:.2g}; no file is kept")


def _onnx_answers(file: Path, examples: Sequence[Example]) -> list[Tensor]:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    feeds = [{n: part.numpy() for n, part in zip(names, given, strict=True)} for given, _ in examples]
    return [torch.from_numpy(session.run(["scores"], feed)[0]) for feed in feeds]


def _torch_answers(file: Path, examples: Sequence[Example]) -> list[Tensor]:
    loaded = torch.export.load(file).module()
    return [loaded(*given) for given, _ in examples]


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log output of exporters."""
    level = logging.root.manager.disable
    logging.disable(max(level, logging.ERROR))
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(level)
