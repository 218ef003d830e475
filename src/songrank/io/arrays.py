"""Arrays in `safetensors <https://huggingface.co/docs/safetensors>`_ files, written in chunks and memory-mapped."""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.errors import DataError, first_line
from songrank.io.disk_table import DiskColumn
from songrank.io.files import create, file_digests, not_written, open_regular

_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16"}
_NAMES |= {"int8": "I8", "uint8": "U8", "bool": "BOOL"}
_PIECE_BYTES = 32 << 20


@dataclass(frozen=True)
class Pieces:
    """An array in chunks along its first axis, which may exceed memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: Iterable[Array]


class ScratchArray:
    """Rows appended to a file, then memory-mapped."""

    def __init__(self, path: Path, dtype: Any, tail: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.tail, self.rows = path, np.dtype(dtype), tail, 0
        self._file = create(path)

    def append(self, rows: Array) -> None:
        """Append rows."""
        rows = np.ascontiguousarray(rows, self.dtype)
        self._file.write(rows.reshape(-1).view(np.uint8).data)
        self.rows += rows.shape[0]

    def mapped(self) -> Array:
        """All rows, memory-mapped; rows cannot be appended afterwards."""
        self._file.close()
        shape = (self.rows, *self.tail)
        if 0 in shape:
            return np.zeros(shape, self.dtype)
        return np.memmap(self.path, self.dtype, mode="c", shape=shape)  # copy-on-write: torch needs writable arrays


def write_arrays(path: Path, arrays: Mapping[str, Array | Pieces | DiskColumn]) -> str:
    """Write a safetensors file in chunks, and return its SHA-256."""
    header: dict[str, dict[str, object]] = {}
    position = 0
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # wide types first, for alignment
    for name in names:
        array = arrays[name]
        size = int(np.prod(array.shape, dtype=np.int64)) * array.dtype.itemsize
        offsets = [position, position + size]
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        position += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with create(path) as file:
        head = (len(text).to_bytes(8, "little"), text)
        for data in itertools.chain(head, *(_data(name, arrays[name]) for name in names)):
            file.write(data)
            digest.update(data)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _data(name: str, array: Array | Pieces | DiskColumn) -> Iterator[bytes | memoryview]:
    if isinstance(array, np.ndarray) and array.ndim == 0:
        yield array.tobytes()
        return
    rows, step = 0, max(1, _PIECE_BYTES // max(1, array.dtype.itemsize * math.prod(array.shape[1:])))
    pieces = array.pieces if isinstance(array, Pieces) else (array[at : at + step] for at in range(0, len(array), step))
    for piece in pieces:
        yield np.ascontiguousarray(piece, array.dtype).reshape(-1).view(np.uint8).data
        rows += piece.shape[0]
    if rows != array.shape[0]:
        raise RuntimeError(f"{name} has {rows} rows; expected {array.shape[0]}")


def read_arrays(path: Path, fix: str = "regenerate the file") -> dict[str, Tensor]:
    """All arrays of a safetensors file, memory-mapped."""
    from safetensors import SafetensorError, safe_open

    try:
        open_regular(path).close()
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise DataError("is missing", fix, file=str(path)) from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise DataError(f"is damaged ({first_line(error)})", fix, file=str(path)) from None


def write_tensors(file: Path, tensors: dict[str, Tensor]) -> str:
    """Write tensors with default file permissions, and return the SHA-256."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    create(file).close()
    mode = file.stat().st_mode
    try:
        save_file(tensors, file)
    except SafetensorError as error:
        raise not_written(file, error) from None
    file.chmod(mode)  # safetensors creates files for the owner only
    return file_digests(file, "sha256")[0]
