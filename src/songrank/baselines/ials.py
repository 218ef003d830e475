"""iALS: matrix factorisation for implicit feedback by alternating least squares, with the package ``implicit``."""

import importlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from songrank.baselines.base import Baseline
from songrank.baselines.binary_histories import Scores, histories
from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.data import CatalogueSplit


class ImplicitALS(Baseline):
    """iALS (Hu, Koren and Volinsky, *Collaborative Filtering for Implicit Feedback Datasets*, ICDM 2008).

    Minimises over user vectors w and item vectors h

        Σ_u Σ_i c_ui (x_ui − w_u·h_i)² + λ (Σ‖w_u‖² + Σ‖h_i‖²),   c_ui = α where x_ui = 1, else 1

    and scores a history by the w that fits it best with fixed item vectors, so it need not be that of training. Needs
    ``pip install "songrank[baselines]"``. The initial values have a fixed seed.
    """

    grid: tuple[dict[str, float], ...] = tuple(
        {"factors": size, "regularisation": 10.0, "alpha": alpha} for size in (64, 128) for alpha in (1.0, 5.0, 30.0)
    )
    deterministic = False

    def __init__(self, train: CatalogueSplit) -> None:
        import_implicit()
        self._train, self._items = histories(train), train.num_items

    def fit(self, factors: int, regularisation: float, alpha: float, iterations: int = 15) -> Scores:
        """A function from histories and users [b] to scores [b, num_items]."""
        with _one_blas_thread():
            model = import_implicit().AlternatingLeastSquares(
                factors=factors, regularization=regularisation, alpha=alpha, iterations=iterations, random_state=0
            )
            model.fit(_matrix(self._train, self._items), show_progress=False)
        items = torch.from_numpy(model.item_factors)

        def scores(rows: CSR, query: Tensor) -> Tensor:
            with _one_blas_thread():
                vectors = model.recalculate_user(np.arange(query.shape[0]), _matrix(rows.take(query), self._items))
            return torch.from_numpy(vectors) @ items.T

        return scores


def import_implicit() -> Any:
    """The CPU module of ``implicit``; a ``UserError`` if it is not installed."""
    try:
        return importlib.import_module("implicit.cpu.als")
    except ImportError:
        message = 'iALS needs the package implicit, which is not installed: pip install "songrank[baselines]"'
        raise UserError(message) from None


def _one_blas_thread() -> Any:
    """Limit BLAS to one thread, since implicit has its own threads."""
    return importlib.import_module("threadpoolctl").threadpool_limits(1, "blas")


def _matrix(rows: CSR, num_items: int) -> Any:
    values = np.ones(rows.num_entries, dtype=np.float32)
    matrix = (values, rows["item"].numpy(), rows.offsets.numpy())
    return importlib.import_module("scipy.sparse").csr_matrix(matrix, (len(rows), num_items))
