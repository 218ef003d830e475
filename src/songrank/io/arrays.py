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
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.errors import DataError, first_line
from songrank.io.disk_table import DiskColumn
from songrank.io.files import create, open_regular, writing

_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16"}
_NAMES |= {"int8": "I8", "uint8": "U8", "bool": "BOOL", "bfloat16": "BF16"}
_ORDER = ("I64", "F64", "F32", "I32", "BF16", "F16", "I16", "I8", "U8", "BOOL")  # of types in safetensors
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
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # wide types first, for alignment
    return _write(path, {name: (_NAMES[arrays[name].dtype.name], arrays[name]) for name in names})


def _write(path: Path, arrays: Mapping[str, tuple[str, Array | Pieces | DiskColumn]]) -> str:
    """Write arrays with the names of their types, in this order."""
    header: dict[str, dict[str, object]] = {}
    position = 0
    for name, (kind, array) in arrays.items():
        size = int(np.prod(array.shape, dtype=np.int64)) * array.dtype.itemsize
        offsets = [position, position + size]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": offsets}
        position += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with create(path) as file:
        head = (len(text).to_bytes(8, "little"), text)
        for data in itertools.chain(head, *(_data(name, array) for name, (_, array) in arrays.items())):
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


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors of a CPU in chunks, with the bytes of ``safetensors.torch.save_file``; return the SHA-256."""
    kinds = {name: _NAMES[str(tensor.dtype).removeprefix("torch.")] for name, tensor in tensors.items()}
    names = sorted(tensors, key=lambda name: (_ORDER.index(kinds[name]), name))
    with writing(file):
        return _write(file, {name: (kinds[name], _array(tensors[name])) for name in names})


def _array(tensor: Tensor) -> Array:
    """The values as NumPy has them; bits of types that it lacks."""
    found: Array = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return found
