"""Validated columns of ids and labels from tensors, arrays, data frames or lists."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.checks import check_int, fail

Array = np.ndarray[Any, Any]
ArrayLike = Tensor | np.ndarray[Any, Any] | Sequence[float] | Sequence[int]


def _column(argument: str, values: ArrayLike, kinds: str, expected: str) -> Tensor:
    """Copy one numeric column, so that later changes by the caller have no effect."""
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.size and array.dtype.kind not in kinds:
            fail(argument, f"of type {array.dtype}", expected, TypeError)
        values = torch.from_numpy(array.astype(np.int64 if "f" not in kinds else np.float32))
    if values.dim() != 1:
        fail(argument, f"of shape {list(values.shape)}", "one dimension")
    if values.is_complex() or ("f" not in kinds and (values.is_floating_point() or values.dtype == torch.bool)):
        fail(argument, f"of type {values.dtype}", expected, TypeError)
    return values.clone()


def read_ids(argument: str, values: ArrayLike) -> Tensor:
    """Validate ids, integers of at least 0, as int64; the error names the first invalid one."""
    ids = _column(argument, values, "iu", "whole numbers")
    if ids.numel() and int(ids.min()) < 0:
        at = int((ids < 0).nonzero()[0])
        fail(f"{argument}[{at}]", int(ids[at]), "a number of at least 0")
    return ids.long()


def read_labels(argument: str, values: ArrayLike) -> Tensor:
    """Validate labels, finite numbers of at least 0, as float32; the error names the first invalid one."""
    labels = _column(argument, values, "iufb", "numbers").to(torch.float32)
    bad = ~(torch.isfinite(labels) & (labels >= 0))
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        fail(f"{argument}[{at}]", float(labels[at]), "a finite number of at least 0")
    return labels


def check_same_length(argument: str, values: Tensor, other: str, reference: Tensor) -> None:
    """Raise unless two columns have the same length."""
    if values.shape != reference.shape:
        fail(argument, f"of length {values.shape[0]}", f"the length of {other}, {reference.shape[0]}")


def check_count(argument: str, given: int | None, of: str, ids: list[Tensor]) -> int:
    """The given count, which must exceed all ids; by default the largest id + 1."""
    needed = max((int(part.max()) + 1 for part in ids if part.numel()), default=0)
    if given is None:
        return needed
    if check_int(argument, given, 0) < needed:
        raise ValueError(f"{of} contains the id {needed - 1}; expected ids below {argument}={given}")
    return given
