"""EASE: a linear item-to-item model in closed form."""

import re
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from songrank.baselines.binary_histories import Scores, histories
from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.data import CatalogueSplit

MANY_ITEMS = 25_000  # the limit where the free memory is unknown
_CELL_BYTES = 24  # XᵀX and the best B in float32, two float64 matrices during inversion
_COLUMNS = 256  # of XᵀX at a time


class Ease:
    """EASE (Steck, *Embarrassingly Shallow Autoencoders for Sparse Data*, WWW 2019).

    With X the binary user-item matrix of the training split,

        P = (XᵀX + λI)⁻¹,   B = I − P · diag(1 / diag P),   scores of a user = x_u B

    B has a zero diagonal, so that no item predicts itself. It is computed in float64 and stored in float32.

    >>> train = CatalogueSplit("train", 3, CSR.from_lengths([2, 2], item=[0, 1, 1, 2]))
    >>> scores = Ease(train).fit(regularisation=1.0)
    >>> scores(histories(train), torch.tensor([0]))  # of the user with items 0 and 1
    tensor([[0.4000, 0.5000, 0.2000]])
    """

    grid: tuple[dict[str, float], ...] = tuple({"regularisation": value} for value in (20, 50, 120, 300, 800, 2000))
    deterministic = True

    def __init__(self, train: CatalogueSplit) -> None:
        _check_memory(train.num_items)
        self._gram = gram(histories(train), train.num_items)

    def fit(self, regularisation: float) -> Scores:
        """A function from histories and users [b] to scores [b, num_items], for this λ."""
        weights = ease_weights(self._gram, regularisation)

        def scores(rows: CSR, query: Tensor) -> Tensor:
            own = rows.take(query)
            return embedding_bag(own["item"], weights, own.offsets[:-1], mode="sum")

        return scores


def gram(rows: CSR, num_items: int) -> Tensor:
    """XᵀX, the number of users who have both items, in float32, which is exact below 2²⁴."""
    item, order = rows["item"].sort(stable=True)
    query, start = rows.row_of_entries()[order], torch.searchsorted(item, torch.arange(num_items + 1))
    counts = torch.empty(num_items, num_items)
    for begin in range(0, num_items, _COLUMNS):
        end = min(begin + _COLUMNS, num_items)
        own = slice(int(start[begin]), int(start[end]))
        columns = torch.zeros(len(rows), end - begin)
        columns[query[own], item[own] - begin] = 1.0
        counts[:, begin:end] = embedding_bag(query, columns, start[:-1], mode="sum")
    return counts


def ease_weights(counts: Tensor, regularisation: float) -> Tensor:
    """B of EASE from XᵀX and λ, in float32."""
    matrix = counts.double()
    matrix.diagonal().add_(regularisation)
    matrix = torch.linalg.cholesky(matrix)
    matrix = torch.cholesky_inverse(matrix)
    scale = -1.0 / matrix.diagonal()
    weights = matrix.mul_(scale).to(torch.float32, memory_format=torch.contiguous_format)
    weights.diagonal().zero_()
    return weights


def _check_memory(num_items: int) -> None:
    needed, free = _CELL_BYTES * num_items**2, _free_memory()
    if needed > free if free is not None else num_items > MANY_ITEMS:
        found = f"EASE on {num_items:,} items needs {needed / 2**30:.0f} GB of memory"
        has = f", but {free / 2**30:.0f} GB are free" if free is not None else ""
        raise UserError(f"{found}{has}; leave it out, or use a machine with more memory")


def _free_memory() -> int | None:
    """Bytes available without swapping, where the system reports it (Linux)."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
