"""Checkpoints: the complete state of a run, written atomically and verified when read."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.core.errors import DataError, UserError
from songrank.core.processes import ALONE, Processes
from songrank.io.arrays import read_arrays, write_tensors
from songrank.io.files import file_digests, sha256
from songrank.io.json_files import read_json, write_json
from songrank.io.staging import staged_directory

VERSION = 3
_TOGETHER = 4  # version of checkpoints of several processes
_NAME = re.compile(r"step-([0-9]{9,})")
_FIX = "use another checkpoint, or start a new run"
_TENSORS = "tensors.safetensors"
_TENSOR, _PAIRS, _TUPLE = "__tensor__", "__pairs__", "__tuple__"


@dataclass(eq=False)
class Checkpoints:
    """The last ``keep`` checkpoints of a run, by step; each includes the best weights so far.

    Checkpoints of another ``owner``, for example a checksum of recipe and data, are rejected, except those of
    ``earlier`` owners. ``warn`` is called with one line for each damaged checkpoint. Several ``processes`` write one
    file each, and the first commits the checkpoint; any number of processes can read it.
    """

    folder: Path
    keep: int = 2
    owner: str = ""
    earlier: tuple[str, ...] = ()
    warn: Callable[[str], None] = lambda message: None
    processes: Processes = ALONE

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Save the state after ``step`` steps; of several processes, each its part."""
        if self.processes.world > 1:
            self._save_together(step, state)
            return
        tree, tensors = flatten(state, copy=False)
        content = {"version": VERSION, "step": step, "owner": self.owner, "state": tree}
        with staged_directory(self._place(step), overwrite=True, marker="state.json") as place:
            digest = sha256(json.dumps(content, sort_keys=True) + write_tensors(place / _TENSORS, tensors))
            write_json(place / "state.json", {**content, "sha256": digest})
        self._remove_old()

    def _save_together(self, step: int, state: Mapping[str, Any]) -> None:
        processes, place = self.processes, ""
        with ExitStack() as stack:
            with processes.agreed():
                if processes.is_first:
                    staged = staged_directory(self._place(step), overwrite=True, marker="state.json")
                    place = str(stack.enter_context(staged))
            place, told = processes.texts(place)[0], ""
            with processes.agreed():
                if not Path(place).is_dir():
                    fix = "choose a directory on a file system that all processes share"
                    raise DataError("is not visible on all processes", fix, file=str(self.folder))
                tree, tensors = flatten(state, copy=False)
                file = Path(place) / _tensors_of(processes.rank)
                told = json.dumps({"state": tree, "sha256": write_tensors(file, tensors)})
            first, *others = (json.loads(text) for text in processes.texts(told))
            with processes.agreed():
                if processes.is_first:
                    content = {"version": _TOGETHER, "step": step, "owner": self.owner, "state": first["state"]}
                    content["parts"] = others
                    digest = sha256(json.dumps(content, sort_keys=True) + first["sha256"])
                    write_json(Path(place) / "state.json", {**content, "sha256": digest})
                    stack.close()
                    self._remove_old()

    def _remove_old(self) -> None:
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self._place(old), ignore_errors=True)

    def _place(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}"

    def steps(self) -> list[int]:
        """Steps with a checkpoint, in order; a checkpoint may be damaged."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(place.name) for place in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        """The step and state of the last valid checkpoint, or None. Damaged checkpoints are renamed."""
        found = None
        with self.processes.agreed():
            if self.processes.is_first:
                found = self._latest()
        step = int(self.processes.first(-1.0 if found is None else found[0]))
        with self.processes.agreed():
            if step >= 0 and found is None:
                found = step, read_checkpoint(self._place(step), self.owner, self.earlier)
        return found

    def _latest(self) -> tuple[int, dict[str, Any]] | None:
        steps = self.steps()
        for step in reversed(steps):
            try:
                return step, read_checkpoint(self._place(step), self.owner, self.earlier)
            except DataError as error:
                then = "resuming from the previous checkpoint" if step != steps[0] else "starting from the beginning"
                self.warn(f"{error.file}: {error.what}; {then}")
                aside = self.folder / f"refused-{self._place(step).name}"
                shutil.rmtree(aside, ignore_errors=True)
                with suppress(OSError):
                    self._place(step).rename(aside)
        return None


def _tensors_of(rank: int) -> str:
    """The name of the file of a process."""
    return _TENSORS if rank == 0 else f"tensors-{rank}.safetensors"


def read_checkpoint(place: Path, owner: str | None = "", earlier: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read the state of a checkpoint; ``DataError`` if it cannot be used; None accepts any owner.

    If several processes wrote it, the states of the others are in the list ``"parts"``.
    """
    described = place / "state.json"
    _check_readable(described)
    info = read_json(described, _FIX)
    digest = info.pop("sha256", None)
    parts = info.get("parts", [])
    if info.get("version") != (_TOGETHER if parts else VERSION) or not isinstance(info.get("state"), dict):
        raise DataError("is not a checkpoint of this version", _FIX, file=str(place))
    digests = [_digest(place / _tensors_of(rank)) for rank in range(1 + len(parts))]
    sound = digest == sha256(json.dumps(info, sort_keys=True) + digests[0])
    if not sound or digests[1:] != [part["sha256"] for part in parts]:
        raise DataError("is damaged (checksum mismatch)", _FIX, file=str(place))
    if owner is not None and info["owner"] not in (owner, *earlier):
        fix = "restore the original config.yaml, or start a new run"
        raise UserError(f"{place}: belongs to another recipe or data set; {fix}")
    if parts:  # memory-mapped: a process copies the rows that it needs
        trees = [info["state"], *(part["state"] for part in parts)]
        first, *others = (
            unflatten(tree, read_arrays(place / _tensors_of(rank), _FIX)) for rank, tree in enumerate(trees)
        )
        return {**first, "parts": others}
    tensors = {name: tensor.clone() for name, tensor in read_arrays(place / _TENSORS, _FIX).items()}
    state: dict[str, Any] = unflatten(info["state"], tensors)
    return state


def _check_readable(file: Path) -> None:
    if file.exists() and not os.access(file, os.R_OK):  # not damaged
        raise UserError(f"{file}: cannot be read (permission denied); ask its owner for read permission")


def _digest(file: Path) -> str:
    _check_readable(file)
    try:
        return file_digests(file, "sha256")[0]
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", _FIX, file=str(file)) from None


def flatten(state: Any, *, copy: bool = True) -> tuple[Any, dict[str, Tensor]]:
    """Replace each tensor of a tree by a reference; return the tree and the tensors by number.

    Without ``copy``, tensors of a CPU share the memory of the state.

    >>> tree, tensors = flatten({"step": 3, "weights": [torch.ones(2)], 7: (1.5, None)})
    >>> sorted(tensors), unflatten(tree, tensors)
    (['0'], {'step': 3, 'weights': [tensor([1., 1.])], 7: (1.5, None)})
    """
    tensors: dict[str, Tensor] = {}

    def pack(value: Any) -> Any:
        if isinstance(value, Tensor):
            name = str(len(tensors))
            tensors[name] = value.detach().to("cpu", copy=copy).contiguous()
            return {_TENSOR: name}
        if isinstance(value, Mapping):
            if all(isinstance(key, str) and not key.startswith("__") for key in value):
                return {key: pack(entry) for key, entry in value.items()}
            return {_PAIRS: [[pack(key), pack(entry)] for key, entry in value.items()]}
        if isinstance(value, tuple):
            return {_TUPLE: [pack(entry) for entry in value]}
        if isinstance(value, list):
            return [pack(entry) for entry in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        expected = "tensors, numbers, strings, lists and dictionaries"
        raise TypeError(f"state contains a {type(value).__name__}; expected {expected}")

    return pack(state), tensors


def unflatten(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of :func:`flatten`."""
    if isinstance(tree, list):
        return [unflatten(entry, tensors) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    if _TENSOR in tree:
        return tensors[tree[_TENSOR]]
    if _TUPLE in tree:
        return tuple(unflatten(entry, tensors) for entry in tree[_TUPLE])
    if _PAIRS in tree:
        return {unflatten(key, tensors): unflatten(entry, tensors) for key, entry in tree[_PAIRS]}
    return {key: unflatten(entry, tensors) for key, entry in tree.items()}


def random_state() -> dict[str, Any]:
    """The state of all random generators of torch; songrank does not use those of Python or NumPy."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restore all generators."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
