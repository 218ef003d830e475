"""Checkpoints: all of a run's state in a folder, written atomically, rejected when damaged."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError, UserError
from songrank.io.arrays import read_arrays, write_tensors
from songrank.io.files import file_digests, sha256
from songrank.io.json_files import read_json, write_json
from songrank.io.staging import staged_directory
from songrank.training.state_tree import flatten, unflatten

VERSION = 3
_NAME = re.compile(r"step-([0-9]{9,})")
_FIX = "use another checkpoint, or start again"
_TENSORS = "tensors.safetensors"


class Checkpoints:
    """The last checkpoints of one run, by step; the best weights so far are part of each state.

    Args:
        folder: made when the first is saved.
        keep: how many to keep; with two, one is left when the last is damaged.
        owner: what the states belong to, such as a checksum of recipe and data; those of another owner are rejected.
        warn: called with one line for each damaged checkpoint.

    >>> import tempfile, torch
    >>> kept = Checkpoints(Path(tempfile.mkdtemp()) / "checkpoints")
    >>> kept.save(10, {"epoch": 1, "weight": torch.ones(2)})
    >>> kept.save(20, {"epoch": 2, "weight": torch.zeros(2)})
    >>> kept.latest()
    (20, {'epoch': 2, 'weight': tensor([0., 0.])})

    """

    def __init__(
        self, folder: Path, keep: int = 2, owner: str = "", warn: Callable[[str], None] = lambda message: None
    ) -> None:
        self.folder, self.keep, self.owner, self.warn = folder, keep, owner, warn

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Save the state after ``step`` steps."""
        tree, tensors = flatten(state)
        content = {"version": VERSION, "step": step, "owner": self.owner, "state": tree}
        with staged_directory(self._place(step), overwrite=True, marker="state.json") as place:
            digest = sha256(json.dumps(content, sort_keys=True) + write_tensors(place / _TENSORS, tensors))
            write_json(place / "state.json", {**content, "sha256": digest})
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self._place(old), ignore_errors=True)

    def _place(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}"

    def steps(self) -> list[int]:
        """Steps with a checkpoint, in order; it may still be damaged."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(place.name) for place in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        """The last valid checkpoint and its step; None if there is none. Damaged ones are renamed."""
        steps = self.steps()
        for step in reversed(steps):
            try:
                return step, read_checkpoint(self._place(step), self.owner)
            except DataError as error:
                next_one = "going on from the one before it" if step != steps[0] else "starting from the beginning"
                self.warn(f"{error.file}: {error.what}: {next_one}")
                aside = self.folder / f"refused-{self._place(step).name}"
                shutil.rmtree(aside, ignore_errors=True)
                with suppress(OSError):
                    self._place(step).rename(aside)
        return None


def read_checkpoint(place: Path, owner: str | None = "") -> dict[str, Any]:
    """The state in a checkpoint, or a ``DataError`` that says why it cannot be used; None stands for any owner."""
    described, file = place / "state.json", place / _TENSORS
    for part in (described, file):
        if part.exists() and not os.access(part, os.R_OK):  # not damaged
            raise UserError(f"{part}: cannot be read (permission denied); ask its owner for the right to")
    info = read_json(described, _FIX)
    digest = info.pop("sha256", None)
    if info.get("version") != VERSION or not isinstance(info.get("state"), dict):
        raise DataError("is no checkpoint of this version", _FIX, file=str(place))
    try:
        (of_tensors,) = file_digests(file, "sha256")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", _FIX, file=str(file)) from None
    if digest != sha256(json.dumps(info, sort_keys=True) + of_tensors):
        raise DataError("is damaged: its checksum is another", _FIX, file=str(place))
    if owner is not None and info["owner"] != owner:
        fix = "put config.yaml back as it was, or begin a new run"
        raise UserError(f"{place}: belongs to another recipe or data set; {fix}")
    tensors = {name: tensor.clone() for name, tensor in read_arrays(file, _FIX).items()}
    state: dict[str, Any] = unflatten(info["state"], tensors)
    return state
