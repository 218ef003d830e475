"""Checkpoints: all of a run's state, in folders that are there whole or not at all, refused when they are damaged."""

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from songrank.data.errors import DataError
from songrank.data.storage import read_arrays, read_json, staged_directory, write_json
from songrank.training.state_tree import flatten, unflatten

VERSION = 1
_NAME = re.compile(r"step-([0-9]{9,})")


class Checkpoints:
    """The last few checkpoints of one run, by step; the best weights so far are part of each state.

    Args:
        folder: where they are; made when the first is saved.
        keep: how many of the last to keep. Two, so that there is one to go back to when the last is damaged.
        warn: told in one line about each checkpoint that was refused.

    >>> import tempfile, torch
    >>> kept = Checkpoints(Path(tempfile.mkdtemp()) / "checkpoints")
    >>> kept.save(10, {"epoch": 1, "weight": torch.ones(2)})
    >>> kept.save(20, {"epoch": 2, "weight": torch.zeros(2)})
    >>> kept.latest()
    (20, {'epoch': 2, 'weight': tensor([0., 0.])})

    """

    def __init__(self, folder: Path, keep: int = 2, warn: Callable[[str], None] = lambda message: None) -> None:
        self.folder, self.keep, self.warn = folder, keep, warn

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Save the state after ``step`` steps."""
        with staged_directory(self.folder / f"step-{step:09d}", overwrite=True, marker="state.json") as place:
            _write(place, step, state)
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self.folder / f"step-{old:09d}", ignore_errors=True)

    def steps(self) -> list[int]:
        """Steps after which there are checkpoints, in order; not yet whether they can be read."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(place.name) for place in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        """The last checkpoint that is whole, and its step; None if there is none."""
        for step in reversed(self.steps()):
            try:
                return step, read_checkpoint(self.folder / f"step-{step:09d}")
            except DataError as error:
                self.warn(f"{error}: going on from the one before it")
        return None


def _write(place: Path, step: int, state: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    tree, tensors = flatten(state)
    file = place / "tensors.safetensors"
    save_file(tensors, file)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    write_json(place / "state.json", {"version": VERSION, "step": step, "sha256": digest, "state": tree})


def read_checkpoint(place: Path) -> dict[str, Any]:
    """The state in a checkpoint, or a ``DataError`` that says why it cannot be used."""
    fix = "use another checkpoint, or start again"
    info = read_json(place / "state.json")
    if info.get("version") != VERSION or not isinstance(info.get("state"), dict):
        raise DataError("is no checkpoint of this version", fix, file=str(place))
    file = place / "tensors.safetensors"
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", fix, file=str(file)) from None
    if digest != info.get("sha256"):
        raise DataError("is damaged: its checksum is another", fix, file=str(file))
    tensors = {name: tensor.clone() for name, tensor in read_arrays(file).items()}
    try:
        state: dict[str, Any] = unflatten(info["state"], tensors)
    except (KeyError, TypeError, ValueError):
        raise DataError("was changed by hand", fix, file=str(place / "state.json")) from None
    return state
