"""The run directory: resolved recipe, history, checkpoints, model and evaluations.

============================  =========================================================================================
``config.yaml``               the resolved recipe, which is a recipe itself
``run.json``                  status of the run, versions, device, seconds by phase and epoch, checksum of the data set
``metrics.jsonl``             one line per epoch, the same for interrupted and uninterrupted runs
``checkpoints/``              the last checkpoints, from which a run resumes
``model.json`` and others     the trained model, usable without the data (``songrank.serving``)
``evaluation/``               per split, a JSON file and one value per query and metric
``tensorboard/``              the same curves, if tensorboard is installed
============================  =========================================================================================

Files are written atomically and do not use pickle.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from songrank import __version__
from songrank.core.errors import DataError, UserError, first_line
from songrank.core.limits import RECIPE_BYTES
from songrank.data import Dataset, ListSplit
from songrank.io.files import (
    NEW,
    create,
    file_digests,
    make_folder,
    not_written,
    process_mark,
    read_whole,
    remove_leftovers,
    sha256,
    write_whole,
)
from songrank.io.json_files import plain, read_json, write_json
from songrank.io.locks import LOCK, alone
from songrank.io.verification import check_seal, seal
from songrank.metrics import Evaluation
from songrank.models.model_folder import MODEL_FILES
from songrank.training.config.recipe import Recipe
from songrank.training.config.yaml_text import read_yaml
from songrank.training.trainer.loop import VALIDATION

_HELD_BYTES = 2**14  # twice the size of a long run.json


class RunDirectory:
    """A run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.state, self.history = path / "config.yaml", path / "run.json", path / "metrics.jsonl"
        self.checkpoints, self.tensorboard = path / "checkpoints", path / "tensorboard"

    def begin(self, recipe: Recipe, dataset: Dataset, *, overwrite: bool = False) -> None:
        """Create the directory; an existing one raises, or is cleared of an earlier run if ``overwrite``."""
        self.check_free(overwrite=overwrite)
        text = _yaml(recipe)
        notes = {"status": "running", "data_sha256": fingerprint(dataset)}
        notes |= {"songrank": __version__, "torch": torch.__version__}
        make_folder(self.path)
        with alone(self.path, "trained"):
            if self.check_free(overwrite=overwrite):  # again: another process may have begun a run meanwhile
                self._clear()
            write_json(self.state, plain(notes))
            write_whole(self.config, text)

    def rewrite(self, recipe: Recipe) -> None:
        """Replace the recipe."""
        write_whole(self.config, _yaml(recipe))

    def check_free(self, *, overwrite: bool = False, resumable: bool = True) -> bool:
        """Raise if the directory must not be replaced; return True if it contains a run that may be."""
        if not self._occupied():
            return False
        if not self.config.is_file():
            fix = "choose another directory with -o"
            raise DataError("exists and is not a run directory", fix, file=str(self.path))
        if not overwrite:
            fix = "pass --overwrite to replace it, or choose another directory with -o"
            fix = f"resume it with `songrank train --resume`, {fix}" if resumable else fix
            raise DataError("already contains a run", fix, file=str(self.path))
        return True

    def _occupied(self) -> bool:
        """Whether it has anything except leftovers of a process killed before the run began."""
        try:
            if not self.path.is_dir():
                return self.path.exists()
            left = {LOCK} if self.config.exists() else {LOCK, "run.json"}
            return any(file.name not in left and not file.name.startswith(NEW) for file in self.path.iterdir())
        except OSError as error:
            what = f"cannot be opened ({error.strerror})"
            raise DataError(what, "choose another directory", file=str(self.path)) from None

    def _clear(self) -> None:
        try:
            for folder in (self.checkpoints, self.tensorboard, self.path / "evaluation"):
                if folder.exists():
                    shutil.rmtree(folder)
            for name in ("config.yaml", "run.json", "metrics.jsonl", "report.html", "model.json", *MODEL_FILES):
                (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise not_written(self.path, error) from None
        self.sweep()

    def sweep(self) -> None:
        """Remove incomplete files of killed processes."""
        for folder in (self.path, self.path / "evaluation"):
            remove_leftovers(folder)
        for left in self.checkpoints.glob(".*.songrank-*"):
            shutil.rmtree(left, ignore_errors=True)

    def recipe(self) -> Recipe:
        """The recipe of the run."""
        try:
            text = read_whole(self.config, RECIPE_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            what = "is not a run directory: it has no readable config.yaml"
            raise DataError(what, "expected one written by `songrank train`", file=str(self.path)) from None
        check_seal(text, str(self.config))
        return Recipe.read(read_yaml(text, str(self.config)), str(self.config))

    def check_data(self, dataset: Dataset) -> None:
        """Raise if the data set is not the one of the run."""
        if self.notes().get("data_sha256", fingerprint(dataset)) != fingerprint(dataset):
            fix = "pass the one it was trained on, or start a new run"
            raise DataError(f"is not the data set of {self.path}", fix, file=str(dataset.path))

    def notes(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        return read_json(self.state, "delete it; it is regenerated") if self.state.exists() else {}

    def recipe_changes(self) -> list[dict[str, Any]]:
        """The changes of the recipe by ``--resume``, each with the step and the former owner of checkpoints."""
        found = self.notes().get("recipe_changes", [])
        if not isinstance(found, list) or not all(
            isinstance(c, dict) and isinstance(c.get("owner"), str) for c in found
        ):
            raise DataError("recipe_changes is damaged", "remove the entry", file=str(self.state))
        return found

    def note(self, **entries: Any) -> None:
        """Update ``run.json``; None removes an entry. A run that has ended has the SHA-256 of its history."""
        if "status" in entries:
            ended = entries["status"] != "running" and self.history.exists()
            entries["history_sha256"] = file_digests(self.history, "sha256")[0] if ended else None
        kept = {name: value for name, value in {**self.notes(), **entries}.items() if value is not None}
        write_json(self.state, plain(kept))

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Record an error of the disk as status ``failed``; on a full disk, in space that is held until then."""
        held = self.path / f"{NEW}{process_mark()}"
        with suppress(OSError), create(held) as stream:
            stream.write(os.urandom(_HELD_BYTES))
        try:
            yield
        except (OSError, DataError) as error:
            held.unlink(missing_ok=True)
            with suppress(UserError, OSError):
                self.note(status="failed", error=first_line(error))
            raise
        finally:
            held.unlink(missing_ok=True)

    def rewrite_history(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Replace the history by these lines, since epochs after the checkpoint run again."""
        write_whole(self.history, "".join(json.dumps(plain(line)) + "\n" for line in lines))

    def append_history(self, line: Mapping[str, Any]) -> None:
        """Add one line."""
        try:
            with self.history.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain(line)) + "\n")
        except OSError as error:
            raise not_written(self.history, error) from None

    def save_evaluation(self, split: str, found: Evaluation, lists_sha256: str) -> None:
        """Write the metrics of a split and the values per query."""
        from safetensors.torch import save

        values = {name: value.cpu().contiguous() for name, value in found.per_query.items()}
        data = save(values)
        summary = {
            "split": split,
            "metrics": found.values,
            "queries": int(next(iter(values.values())).numel()),
            "empty": found.num_empty,
            "ties": found.ties,
            "empty_policy": found.empty,
            "gain": str(found.gain),
            "candidates": "all" if found.candidates is None else found.candidates,
            "lists_sha256": lists_sha256,
            "values_sha256": sha256(data),
        }
        write_whole(self.path / "evaluation" / f"{split}.safetensors", data)
        write_json(self.path / "evaluation" / f"{split}.json", plain(summary))


def _yaml(recipe: Recipe) -> str:
    import yaml

    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 120}
    return seal(yaml.safe_dump(recipe.model_dump(mode="json"), **style))


class Curves:
    """TensorBoard writer, one point per epoch and curve; without TensorBoard or the directory it does nothing."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        with suppress(ImportError, OSError):  # optional: ``metrics.jsonl`` has the same values
            from torch.utils.tensorboard import SummaryWriter

            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):  # else its thread would fail later and print a traceback
                self._writer = SummaryWriter(str(folder))

    def add(self, line: Mapping[str, Any]) -> None:
        """Add the points of one line of the history."""
        if self._writer is not None:
            for name in ("loss", "objective", "learning_rate", *(name for name in line if name.startswith(VALIDATION))):
                self._writer.add_scalar(name.replace(" ", "_").replace("@", "_at_"), line[name], line["step"])

    def close(self) -> None:
        """Write the remaining points."""
        if self._writer is not None:
            self._writer.close()


def fingerprint(dataset: Dataset) -> str:
    """SHA-256 of ``dataset.json``, which has the checksums of all files of the data set and of its sources."""
    return dataset.sha256


def lists_fingerprint(dataset: Dataset, split: str) -> str:
    """SHA-256 of the queries, items and labels of a split, without features."""
    digest = hashlib.sha256(f"{dataset.form} {split} {dataset.num_items}".encode())
    shared = dataset.info["shared_queries"]
    for name in tuple(dataset)[: tuple(dataset).index(split) + 1] if shared else (split,):
        part = dataset[name]
        columns = (part.offsets, part.label, *(() if isinstance(part, ListSplit) else (part.item,)))
        for column in columns:
            digest.update(column.contiguous().numpy().data)
    return digest.hexdigest()
