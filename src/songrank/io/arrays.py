"""Arrays that are written in pieces and read by memory map.

Arrays are kept in `safetensors <https://huggingface.co/docs/safetensors>`_ files: a length, a JSON header, the bytes.
The library writes only arrays that are in memory, so the writing of larger ones is done here; reading is the library's.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.errors import DataError, first_line
from songrank.io.checksums import file_digests
from songrank.io.files import not_written

_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16"}
_NAMES |= {"int8": "I8", "uint8": "U8", "bool": "BOOL"}
_PIECE_BYTES = 32 << 20


@dataclass(frozen=True)
class Pieces:
    """An array that comes in pieces along its first axis, because it need not fit in memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: Iterable[Array]


class ScratchArray:
    """Rows that are appended to a file while their number is not known, and mapped once it is.

    >>> import tempfile
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


def read_arrays(path: Path, fix: str = "write it again") -> dict[str, Tensor]:
    """All arrays of a safetensors file, memory-mapped: a page is read when it is first touched."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise DataError("is missing", fix, file=str(path)) from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise DataError(f"is damaged ({first_line(error)})", fix, file=str(path)) from None


def write_tensors(file: Path, tensors: dict[str, Tensor]) -> str:
    """Write tensors that are in memory, readable by whoever may read other new files, and return the SHA-256."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    file.touch()
    mode = file.stat().st_mode
    try:
        save_file(tensors, file)
    except SafetensorError as error:
        raise not_written(file, error) from None
    file.chmod(mode)  # safetensors makes it for the owner alone
    return file_digests(file, "sha256")[0]
