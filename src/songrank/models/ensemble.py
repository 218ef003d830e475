"""Several models of one kind as one: the mean of their scores."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from songrank.models.base import RankingModel, capabilities_of, history_length
from songrank.models.capabilities import Capabilities


class Ensemble(RankingModel):
    """The mean of its members' scores, with the calls that its members have; for use, not for training.

    With s_m the scores of member m of M,

        score = (1 / M) Σ_m s_m

    which only means something if the members' scores are of one scale: the same model, trained alike, from other seeds.

    Args:
        members: models that read the same.

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
        first = capabilities_of(members[0])
        self.capabilities = Capabilities(first.query, tiled=first.tiled, pointwise=first.pointwise)  # no own tables

    @property
    def num_items(self) -> int:
        """N, of members that have a catalogue."""
        return int(self.members[0].num_items)  # type: ignore[arg-type]

    @property
    def history_length(self) -> int | None:
        """Most items that are read of a history."""
        return history_length(self.members[0])

    @property
    def query_bytes(self) -> int:
        """Those of one member: members are asked one after the other."""
        first = self.members[0]
        return first.query_bytes if isinstance(first, RankingModel) else 0

    def reset_head(self) -> None:
        """An ensemble is not trained."""
        raise NotImplementedError("an ensemble has no head of its own: train its members")

    def forward(self, *inputs: Any) -> Tensor:
        """The mean of ``member(*inputs)``."""
        return self._mean([member(*inputs) for member in self.members])

    def score_all(self, query: Any) -> Tensor:
        """The mean of ``member.score_all(query)``."""
        return self._mean([member.score_all(query) for member in self.members])  # type: ignore[operator]

    @staticmethod
    def _mean(scores: list[Tensor]) -> Tensor:
        total = scores[0]
        for more in scores[1:]:
            total = total + more
        return total / len(scores)
