"""Directories that are there whole or not at all, and arrays that are written in pieces and read by memory map.

Arrays are kept in `safetensors <https://huggingface.co/docs/safetensors>`_ files: a length, a JSON header, the bytes.
The library writes only arrays that are in memory, so the writing of larger ones is done here; reading is the library's.
"""

import ctypes
import glob
import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from songrank.core.errors import DataError

Array = np.ndarray[Any, Any]

_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16"}
_NAMES |= {"int8": "I8", "uint8": "U8", "bool": "BOOL"}
_MARK = ".songrank-unfinished-"
_PIECE_BYTES = 32 << 20


@dataclass(frozen=True)
class Pieces:
    """An array that comes in pieces along its first axis, because it need not fit in memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: Iterable[Array]


class ScratchArray:
    """Rows that are appended to a file while their number is not known, and mapped once it is.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     scratch = ScratchArray(Path(folder) / "features", np.float32, (2,))
    ...     scratch.append(np.ones((3, 2)))
    ...     scratch.mapped().shape
    (3, 2)
    """

    def __init__(self, path: Path, dtype: Any, tail: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.tail, self.rows = path, np.dtype(dtype), tail, 0
        self._file = path.open("wb")

    def append(self, rows: Array) -> None:
        """Add rows at the end."""
        rows = np.ascontiguousarray(rows, self.dtype)
        self._file.write(rows.reshape(-1).view(np.uint8).data)
        self.rows += rows.shape[0]

    def mapped(self) -> Array:
        """All rows so far, on disk; nothing can be added afterwards."""
        self._file.close()
        shape = (self.rows, *self.tail)
        if 0 in shape:
            return np.zeros(shape, self.dtype)
        return np.memmap(self.path, self.dtype, mode="c", shape=shape)  # writable, which torch wants, but not the file


def write_arrays(path: Path, arrays: Mapping[str, Array | Pieces]) -> str:
    """Write a safetensors file piece by piece, and return its SHA-256."""
    header: dict[str, dict[str, object]] = {}
    position = 0
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # wide types first: all are aligned
    for name in names:
        array = arrays[name]
        size = int(np.prod(array.shape, dtype=np.int64)) * array.dtype.itemsize
        offsets = [position, position + size]
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        position += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in (len(text).to_bytes(8, "little"), text):
            file.write(piece)
            digest.update(piece)
        for name in names:
            rows = 0
            for part in _pieces(arrays[name]):
                data = np.ascontiguousarray(part, arrays[name].dtype).reshape(-1).view(np.uint8).data
                file.write(data)
                digest.update(data)
                rows += part.shape[0]
            if rows != arrays[name].shape[0]:
                raise RuntimeError(f"{name} has {rows} rows; expected {arrays[name].shape[0]}")
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _pieces(array: Array | Pieces) -> Iterator[Array]:
    if isinstance(array, Pieces):
        yield from array.pieces
        return
    rows = max(1, _PIECE_BYTES // max(1, array[:1].nbytes))
    for start in range(0, array.shape[0], rows):
        yield array[start : start + rows]


_PREPARE = "prepare the data set again"


def read_arrays(path: Path, fix: str = _PREPARE) -> dict[str, Tensor]:
    """All arrays of a safetensors file, memory-mapped: a page is read when it is first touched."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise DataError("is missing", fix, file=str(path)) from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise DataError(f"is damaged ({_first_line(error)})", fix, file=str(path)) from None


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write JSON that a person can read."""
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:  # file names may hold any bytes
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path, fix: str | None = None) -> dict[str, Any]:
    """An object from a JSON file, or a ``DataError`` with this remedy; without one, it is a data set's."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        made = fix or "expected a folder made by `songrank data prepare`"
        raise DataError("is missing", made, file=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({_first_line(error)})", fix or _PREPARE, file=str(path)) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check path and permissions", file=str(path)) from None
    if not isinstance(content, dict):
        raise DataError("holds no JSON object", fix or _PREPARE, file=str(path))
    return content


@contextmanager
def staged_directory(
    target: Path, *, overwrite: bool = False, marker: str = "dataset.json", own: tuple[str, ...] = ("vocabulary.txt",)
) -> Iterator[Path]:
    """A folder to write into, which becomes ``target`` when all went well and vanishes when anything did not.

    Until the last moment it lies beside ``target`` under a name that starts with a dot. What a killed process left
    there is removed by the next that writes to the same ``target``.

    Args:
        target: what the folder shall be called in the end.
        overwrite: replace a folder that is there already, if it holds ``marker``.
        marker: the file without which a folder is not one of ours.
        own: what else such a folder may hold, besides arrays; nothing else is ever replaced.

    """
    target = Path(os.path.realpath(target))
    made = [parent for parent in (target.parent, *target.parent.parents) if not parent.exists()]
    staging = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_up(target, marker)
        _check_free(target, overwrite, marker, own)
        staging = Path(tempfile.mkdtemp(prefix=_unfinished(target), dir=target.parent))
        staging.chmod(0o777 & ~_umask())
        yield staging
        _check_free(target, overwrite, marker, own)
        _swap(staging, target)
    except OSError as error:
        raise DataError(
            f"cannot be written ({error.strerror or error})",
            "nothing was kept: free space or choose another place",
            file=str(target),
        ) from None
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        if not target.exists():
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()


def _clear_up(target: Path, marker: str) -> None:
    """Remove what killed processes left; but what is whole, where nothing is in its place, goes there."""
    for left in target.parent.glob(f".{glob.escape(target.name)}{_MARK}*"):
        if _alive(left):
            continue
        if (left / marker).exists() and not target.exists():
            os.rename(left, target)
        else:
            shutil.rmtree(left, ignore_errors=True)


def _check_free(target: Path, overwrite: bool, marker: str, own: tuple[str, ...]) -> None:
    try:
        if not target.exists() and not target.is_symlink():
            return
        if target.is_dir() and not any(target.iterdir()):
            return
        ours = (target / marker).exists()
    except OSError as error:
        raise DataError(f"cannot be opened ({error.strerror})", "choose another place", file=str(target)) from None
    if not ours:
        raise DataError(f"exists and holds no {marker}", "choose a place that does not exist yet", file=str(target))
    if not overwrite:
        raise DataError("exists already", "choose another place, or say --overwrite", file=str(target))
    known = (marker, *own)
    foreign = sorted(
        f.name for f in target.iterdir() if f.is_dir() or (f.name not in known and f.suffix != ".safetensors")
    )
    if foreign:
        raise DataError(f"holds {foreign[0]}, which is not ours", "move it, or choose another place", file=str(target))


def _swap(staging: Path, target: Path) -> None:
    folder = os.open(staging, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    if not (target.is_dir() and any(target.iterdir())):
        os.rename(staging, target)
    elif not _exchange(staging, target):  # two steps, between which neither is there
        old = Path(tempfile.mkdtemp(prefix=_unfinished(target), dir=target.parent))
        try:
            os.rename(target, old)
            os.rename(staging, target)
        except BaseException:
            if not target.exists():
                os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    parent = os.open(target.parent, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places at once; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _unfinished(target: Path) -> str:
    return f".{target.name}{_MARK}{socket.gethostname()}-{os.getpid()}-"


def _alive(staging: Path) -> bool:
    """Whether the process that made this folder still runs, or may run on another machine."""
    host, _, owner = staging.name.rpartition(_MARK)[2].rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not owner.isdigit():
        return True
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
