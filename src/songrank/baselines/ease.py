"""EASE as a baseline: the model with all neighbours, λ chosen on validation."""

from collections.abc import Callable

from torch import Tensor

from songrank import models
from songrank.baselines.base import Baseline
from songrank.baselines.binary_histories import Scores, histories
from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.core.memory import free_memory
from songrank.data import CatalogueSplit
from songrank.functional.item_regression import FewItemRegressions
from songrank.metrics.catalogue import CHOICE_QUERIES
from songrank.models.ease import REGULARISATIONS, best_regularisation

MANY_ITEMS = 25_000  # the limit where the free memory is unknown
_CELL_BYTES = 24  # XᵀX and B in float32, a float64 matrix during inversion, and copies


class Ease(Baseline):
    """EASE (Steck, *Embarrassingly Shallow Autoencoders for Sparse Data*, WWW 2019); see :class:`songrank.models.Ease`.

    B is computed in float64 up to 3,000 items, else in float32 if its residual is small. λ is chosen on at most 2,000
    validation queries, above 4,000 items with models of 64 neighbours.

    >>> import torch
    >>> train = CatalogueSplit("train", 3, CSR.from_lengths([2, 2], item=[0, 1, 1, 2]))
    >>> scores = Ease(train).fit(regularisation=1.0)
    >>> scores(histories(train), torch.tensor([0]))  # of the user with items 0 and 1
    tensor([[0.4000, 0.5000, 0.2000]])
    """

    grid = tuple({"regularisation": value} for value in REGULARISATIONS)
    trials = len(REGULARISATIONS) + 2
    choice_queries = CHOICE_QUERIES

    def __init__(self, train: CatalogueSplit) -> None:
        _check_memory(train.num_items)
        self._trial = models.Ease(train.num_items, neighbours="all").search_model()
        self._regressions = FewItemRegressions(histories(train), train.num_items, self._trial.neighbours or 0)

    def fit(self, regularisation: float) -> Scores:
        """A function from histories and users [b] to scores [b, num_items], for this λ."""
        return self._scores(models.Ease(self._trial.num_items, neighbours="all"), regularisation)

    def choose(self, value: Callable[[Scores], float]) -> tuple[dict[str, float], Scores]:
        """The best λ, and the model for it."""
        best = best_regularisation(lambda regularisation: value(self._scores(self._trial, regularisation)))
        return {"regularisation": best}, self.fit(best)

    def _scores(self, model: models.Ease, regularisation: float) -> Scores:
        model.fit_regularisation(self._regressions, regularisation)

        def scores(rows: CSR, query: Tensor) -> Tensor:
            return model.score_all(rows.last(query, model.history_length))

        return scores


def _check_memory(num_items: int) -> None:
    needed, free = _CELL_BYTES * num_items**2, free_memory()
    if needed > free if free is not None else num_items > MANY_ITEMS:
        found = f"EASE on {num_items:,} items needs {needed / 2**30:.0f} GB of memory"
        has = f", but {free / 2**30:.0f} GB are free" if free is not None else ""
        raise UserError(f"{found}{has}; leave it out, or use a machine with more memory")
