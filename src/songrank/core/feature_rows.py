"""Features of items or users as numbers: dense columns, and weighted entries of a sparse matrix."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from songrank.core.csr import offsets


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """One row of features per item or user, and whether it has training data.

    Args:
        dense: float32 [N, F].
        offsets: int64 [N + 1]: row n has the entries ``offsets[n]`` to ``offsets[n + 1]`` of ``index`` and ``value``.
        index: int64, the sparse feature of each entry, from 0 to W − 1.
        value: float32, its weight.
        trained: bool [N]: whether a row has training data, so that an embedding of its id is learned.
        width: W, the number of sparse features.

    >>> rows = FeatureRows.of(torch.zeros(2, 1), torch.tensor([2, 0]), torch.tensor([4, 7]), torch.ones(2), width=9)
    >>> len(rows), rows.sizes()
    (2, {'rows': 2, 'dense': 1, 'entries': 2, 'width': 9})
    >>> rows.take(torch.tensor([1, 0])).offsets.tolist()
    [0, 0, 2]
    """

    dense: Tensor
    offsets: Tensor
    index: Tensor
    value: Tensor
    trained: Tensor
    width: int

    @classmethod
    def of(
        cls, dense: Tensor, lengths: Tensor, index: Tensor, value: Tensor, width: int, trained: Tensor | None = None
    ) -> "FeatureRows":
        """Rows from the number of sparse entries of each; without ``trained``, all have training data."""
        known = torch.ones(dense.shape[0], dtype=torch.bool) if trained is None else trained
        return cls(dense.float(), offsets(lengths), index.long(), value.float(), known, width)

    @classmethod
    def empty(cls, sizes: Mapping[str, Any]) -> "FeatureRows":
        """Rows of zeros with these :meth:`sizes`, to load others into."""
        rows, dense, entries, width = (int(sizes[name]) for name in ("rows", "dense", "entries", "width"))
        if min(rows, dense, entries, width) < 0:
            raise ValueError(f"sizes of features are {dict(sizes)}")
        index, value = torch.zeros(entries, dtype=torch.int64), torch.zeros(entries)
        known = torch.zeros(rows, dtype=torch.bool)
        return cls(torch.zeros(rows, dense), torch.zeros(rows + 1, dtype=torch.int64), index, value, known, width)

    def __len__(self) -> int:
        return self.dense.shape[0]

    def sizes(self) -> dict[str, int]:
        """The sizes for :meth:`empty`."""
        return {"rows": len(self), "dense": self.dense.shape[1], "entries": self.index.shape[0], "width": self.width}

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {field.name: value for field in fields(self) if isinstance(value := getattr(self, field.name), Tensor)}

    def to(self, device: torch.device | str) -> "FeatureRows":
        """The same rows on another device."""
        return FeatureRows(**{name: tensor.to(device) for name, tensor in self.tensors().items()}, width=self.width)

    def with_trained(self, trained: Tensor) -> "FeatureRows":
        """The same features, with another mask."""
        return FeatureRows(self.dense, self.offsets, self.index, self.value, trained, self.width)

    def take(self, rows: Tensor) -> "FeatureRows":
        """These rows, in this order."""
        count = self.offsets[rows + 1] - self.offsets[rows]
        within = torch.arange(int(count.sum()), device=rows.device)
        begin = self.offsets[rows] - (count.cumsum(0) - count)
        at = within + torch.repeat_interleave(begin, count)
        return FeatureRows(
            self.dense[rows], offsets(count), self.index[at], self.value[at], self.trained[rows], self.width
        )

    @classmethod
    def concatenate(cls, parts: "list[FeatureRows]") -> "FeatureRows":
        """The rows of all parts, which have the same features."""
        lengths = torch.cat([part.offsets.diff() for part in parts])
        dense, index, value, trained = (
            torch.cat([getattr(part, name) for part in parts]) for name in ("dense", "index", "value", "trained")
        )
        return cls(dense, offsets(lengths), index, value, trained, parts[0].width)

    def is_valid(self) -> bool:
        """Whether tensors that were read from a file fit together."""
        count, ends = self.index.shape[0], self.offsets
        sound = ends.shape == (len(self) + 1,) and self.value.shape == (count,) and self.trained.shape == (len(self),)
        sound = sound and int(ends[0]) == 0 and int(ends[-1]) == count and bool((ends.diff() >= 0).all())
        return sound and (count == 0 or (int(self.index.min()) >= 0 and int(self.index.max()) < self.width))
