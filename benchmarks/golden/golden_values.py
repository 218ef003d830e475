"""The values that golden.py records, by key: outputs of commands, files and directories."""

import contextlib
import hashlib
import io
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from songrank_command import main


def digest(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def spaced(word: Any) -> str:
    """A word of a command; in YAML, a space must follow each colon and may follow a comma."""
    return re.sub(r"([:,])(?=\S)", r"\1 ", word) if isinstance(word, str) and "={" in word else str(word)


def array_digest(values: Any) -> str:
    """Of a tensor or an array: type, shape and bytes."""
    if isinstance(values, torch.Tensor):
        tensor = values.detach().cpu().contiguous()
        head, content = f"{tensor.dtype} {list(tensor.shape)} ", tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    else:
        array = np.ascontiguousarray(values)
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        head = f"{array.dtype} {array.shape} "
    return digest(head.encode() + content)


class Golden:
    """Values by key, and the two folders: ``root`` holds the artefacts and is the current one, ``scratch`` the rest."""

    def __init__(self, root: Path, scratch: Path, data: Path | None = None) -> None:
        self.root, self.scratch, self.data = root, scratch, data
        self.values: dict[str, str] = {}
        self.texts: dict[str, str] = {}  # long ones, by digest

    def put(self, key: str, value: Any) -> None:
        if key in self.values:
            raise KeyError(f"{key} stands twice")
        self.values[key] = value if isinstance(value, str) else repr(value)

    def clean(self, text: str) -> str:
        """A text without paths, versions and times; a long one as its digest."""
        for folder, name in ((self.scratch, "SCRATCH"), (self.root, "ROOT"), (self.data, "DATA")):
            text = text.replace(str(folder), name) if folder else text
        text = re.sub(r'("?(?:seconds|songrank|torch)"?: )("[^"]*"|[0-9.e+-]+)', r"\1*", text)
        text = re.sub(r"(<dt>Training</dt><dd>)[^<]*", r"\1*", text)
        text = re.sub(r"\b[0-9][0-9.,]* (?:s|ms|min|seconds)\b", "* s", text)
        if len(text) <= 1500:
            return text
        self.texts[digest(text)] = text
        return digest(text)

    def call(self, *words: Any) -> tuple[str, str, str]:
        """The exit code, output and errors of a command in this process."""
        out, err, code = io.StringIO(), io.StringIO(), "returned"
        handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
        sys.argv = ["songrank", *map(spaced, words)]
        torch.manual_seed(0)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = str(end.code)
            except Exception as error:  # a failure to be recorded and compared, too
                code = f"{type(error).__name__}: {error}"
        for number, handler in handlers:
            signal.signal(number, handler)
        return code, out.getvalue(), err.getvalue()

    def say(self, key: str, *words: Any) -> bool:
        """Record what a command prints and how it ends; whether it ended well."""
        code, out, err = self.call(*words)
        for name, text in (("exit", code), ("out", out), ("err", err)):
            if text:
                self.put(f"{key}/{name}", self.clean(text))
        return code == "0"

    def file(self, key: str, path: Path) -> None:
        self.put(key, digest(path.read_bytes()) if path.is_file() else "missing")

    # ---- folders

    def dataset(self, key: str, folder: Path) -> None:
        for path in sorted(folder.rglob("*")):
            if path.name == "dataset.json":
                self.put(f"{key}/dataset.json", digest(self.clean(path.read_text())))
            elif path.is_file():
                self.file(f"{key}/{path.relative_to(folder)}", path)

    def run(self, key: str, folder: Path, checkpoint: bool = True) -> None:
        """All that a run consists of; of checkpoints, the tensors of the last."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = str(path.relative_to(folder))
            if name.startswith(("checkpoints", "tensorboard", ".songrank", "report")):
                continue
            if path.suffix == ".safetensors" and ("/" in name or name == "model.safetensors"):
                for tensor, values in load_file(path).items():
                    self.put(f"{key}/{name}/{tensor}", array_digest(values))
            elif path.suffix in (".json", ".jsonl", ".yaml"):
                self.put(f"{key}/{name}", self.clean(path.read_text()))
            else:
                self.file(f"{key}/{name}", path)
        last = max((folder / "checkpoints").glob("step-*"), default=None)
        if last is not None and checkpoint:
            for tensor, values in load_file(last / "tensors.safetensors").items():
                self.put(f"{key}/{last.name}/{tensor}", array_digest(values))
