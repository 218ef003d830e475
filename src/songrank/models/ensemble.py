"""An ensemble: the mean score of several models of the same kind."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from songrank.models.base import Capabilities, RankingModel, capabilities_of


class Ensemble(RankingModel):
    """score = (1 / M) Σ_m s_m, the mean score of its members, for inference only.

    Members must have the same score scale: the same model, trained with different seeds.

    Args:
        members: models with the same input.

    >>> import torch
    >>> from songrank.models import Ensemble, MatrixFactorisation
    >>> members = [MatrixFactorisation(num_queries=3, num_items=5, dim=4) for _ in range(2)]
    >>> both, query = Ensemble(members).eval(), torch.tensor([0, 2])
    >>> torch.allclose(both.score_all(query), (members[0].score_all(query) + members[1].score_all(query)) / 2)
    True
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        if not members:
            raise ValueError("members is empty; expected at least one model")
        self.members = nn.ModuleList(members)
        first = members[0]
        declared = capabilities_of(first)
        self.capabilities = Capabilities(declared.query, tiled=declared.tiled, pointwise=declared.pointwise)
        if isinstance(first, RankingModel):
            # Members are scored sequentially, so a query needs the memory of one member.
            self.history_length, self.query_bytes = first.history_length, first.query_bytes
            self.reads_times = first.reads_times

    @property
    def num_items(self) -> int:
        """N, for members with a catalogue."""
        return int(self.members[0].num_items)  # type: ignore[arg-type]

    def reset_head(self) -> None:
        """Not supported: an ensemble cannot be trained."""
        raise NotImplementedError("an ensemble cannot be trained; train its members")

    def item_similarity(self, item: Tensor) -> Tensor:
        """The mean of ``member.item_similarity(item)``."""
        return self._mean([member.item_similarity(item) for member in self.members])  # type: ignore[operator]

    def for_export(self) -> "Ensemble":
        """The ensemble of ``member.for_export()``."""
        parts = [member.for_export() if isinstance(member, RankingModel) else member for member in self.members]
        return Ensemble(parts)

    def forward(self, *inputs: Any) -> Tensor:
        """The mean of ``member(*inputs)``."""
        return self._mean([member(*inputs) for member in self.members])

    def score_all(self, query: Any) -> Tensor:
        """The mean of ``member.score_all(query)``."""
        return self._mean([member.score_all(query) for member in self.members])  # type: ignore[operator]

    @staticmethod
    def _mean(scores: list[Tensor]) -> Tensor:
        return sum(scores[1:], start=scores[0]) / len(scores)
