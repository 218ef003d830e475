"""A blend: the weighted sum of the standardised scores of different models."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.models._inputs import column_scores
from songrank.models.base import Capabilities, Query, RankingModel, capabilities_of

_FLAT = 8 * torch.finfo(torch.float32).eps  # a smaller spread, relative to the largest score, is rounding
_TOLERANCE = 1e-6  # of the sum of weights
_HISTORIES: tuple[Query, ...] = ("history", "sequence")


class UserInput(NamedTuple):
    """The query of a model that reads both: ids of users [B], and their last items [B, T], padded with −1."""

    id: Tensor
    history: Tensor


def standardise(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """(s − mean) / std over the last axis, with the population's standard deviation, or over the ``mask``.

    Constant scores give 0, and so does the padding of a mask. Scores are computed in float32 at least, and divided by
    their largest magnitude first, so that squares neither overflow nor vanish.

    >>> standardise(torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]))
    tensor([[-1.2247,  0.0000,  1.2247],
            [ 0.0000,  0.0000,  0.0000]])
    >>> standardise(torch.tensor([[2.0, 4.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([[-1.,  1.,  0.]])
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scores.shape[-1] == 0:
        return scores
    count: Tensor | int = scores.shape[-1]
    if mask is not None:
        mask = mask.expand_as(scores)
        scores, count = scores.masked_fill(~mask, 0.0), mask.sum(-1, keepdim=True).clamp_min(1)
    largest = scores.abs().amax(-1, keepdim=True)
    scores = scores / torch.where(largest > 0, largest, 1.0)
    centred = scores - scores.sum(-1, keepdim=True) / count
    if mask is not None:
        centred = centred.masked_fill(~mask, 0.0)
    flat = centred.abs().amax(-1, keepdim=True) <= _FLAT
    deviation = (centred.square().sum(-1, keepdim=True) / count).sqrt()
    return (centred / torch.where(flat, 1.0, deviation)).masked_fill(flat, 0.0)


def check_weights(weights: Sequence[float], members: int) -> tuple[float, ...]:
    """The weights of a blend; ``ValueError`` unless there is one of at least 0 per member, with the sum 1.

    >>> check_weights([0.3, 0.8], 2)
    Traceback (most recent call last):
    ValueError: weights is [0.3, 0.8]; expected one number of at least 0 per member, 2 in all, with the sum 1
    """
    numbers = [weight for weight in weights if isinstance(weight, int | float) and not isinstance(weight, bool)]
    sound = len(numbers) == len(weights) == members and all(math.isfinite(w) and w >= 0 for w in numbers)
    if not sound or abs(math.fsum(numbers) - 1) > _TOLERANCE:
        fail("weights", list(weights), f"one number of at least 0 per member, {members} in all, with the sum 1")
    return tuple(map(float, numbers))


class Blend(RankingModel):
    """score = Σ_m w_m · (s_m − mean_q(s_m)) / std_q(s_m), a weighted sum of standardised scores, for inference only.

    Mean and standard deviation are those of the query's scores of all items of the catalogue, or of the documents of
    its list; see :func:`standardise`. Members may be different models with different score scales. They read the same
    input, or, of recommendation, ids of users or interaction histories; the query is then a :class:`UserInput`.

    Args:
        members: models of the same task and data set.
        weights: one weight per member, at least 0, with the sum 1.

    >>> from songrank.models import Blend, HistoryModel, MatrixFactorisation, UserInput
    >>> members = [MatrixFactorisation(num_queries=3, num_items=5, dim=4), HistoryModel(num_items=5, dim=4)]
    >>> blend = Blend(members, weights=[0.4, 0.6]).eval()
    >>> users = UserInput(torch.tensor([0, 2]), torch.tensor([[3, 1], [4, -1]]))
    >>> blend.score_all(users).shape, blend(users, torch.tensor([[1, 4]])).shape
    (torch.Size([2, 5]), torch.Size([2, 2]))
    >>> blend.of_histories().score_all(torch.tensor([[3, 1]])).shape  # new users: members without ids
    torch.Size([1, 5])
    """

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        if not members:
            raise ValueError("members is empty; expected at least one model")
        self.weights = check_weights(weights, len(members))
        self.members = nn.ModuleList(members)
        self.capabilities = Capabilities(_query([capabilities_of(member).query for member in members]))
        known = [member for member in members if isinstance(member, RankingModel)]
        lengths = [member.history_length for member in known if member.history_length is not None]
        self.history_length = max(lengths, default=None)
        if self.capabilities.query != "documents":  # beside the sum, a member's scores and temporaries
            self.query_bytes = max((member.query_bytes for member in known), default=0) + 16 * self.num_items
        self._traced = False

    @property
    def num_items(self) -> int:
        """N, for members with a catalogue."""
        return int(self.members[0].num_items)  # type: ignore[arg-type]

    def reset_head(self) -> None:
        """Not supported: a blend cannot be trained."""
        raise NotImplementedError("a blend cannot be trained; train its members")

    def of_histories(self) -> RankingModel | None:
        """The blend of the members that read histories, with weights that sum to 1 again; None if there are none."""
        if self.capabilities.query != "user":
            return super().of_histories()
        pairs = zip(self.members, self.weights, strict=True)
        kept = [(member, weight) for member, weight in pairs if capabilities_of(member).query in _HISTORIES]
        total = math.fsum(weight for _, weight in kept)
        if total == 0:
            return None
        return Blend([member for member, _ in kept], [weight / total for _, weight in kept])

    def item_similarity(self, item: Tensor) -> Tensor:
        """The weighted sum of the standardised similarities of the members."""
        return self._sum(standardise(member.item_similarity(item)) for member in self._used())  # type: ignore[operator]

    def for_export(self) -> "Blend":
        """The blend of ``member.for_export()``; tiled members are called with all items."""
        parts = [member.for_export() if isinstance(member, RankingModel) else member for member in self.members]
        made = Blend(parts, self.weights)
        made._traced = True
        return made

    def forward(self, *inputs: Any) -> Tensor:
        """Scores of the documents [B, L] for features and mask, or of the items [B, L] or [1, L] for queries."""
        if self.capabilities.query == "documents":
            mask = inputs[1].expand(inputs[0].shape[:2])
            return self._sum(standardise(member(*inputs), mask) for member in self._used())
        return column_scores(self.score_all(inputs[0]), inputs[1])

    def score_all(self, query: Any) -> Tensor:
        """Scores [B, num_items] for B queries."""
        return self._sum(standardise(self._scores(member, query)) for member in self._used())

    def _used(self) -> list[nn.Module]:
        return [member for member, weight in zip(self.members, self.weights, strict=True) if weight]

    def _sum(self, standardised: Iterable[Tensor]) -> Tensor:
        weights = [weight for weight in self.weights if weight]
        total: Tensor | None = None
        for weight, scores in zip(weights, standardised, strict=True):  # one member's scores at a time
            total = weight * scores if total is None else torch.add(total, scores, alpha=weight)
        assert total is not None
        return total

    def _scores(self, member: Any, query: Any) -> Tensor:
        """Scores [B, num_items] of one member."""
        able = capabilities_of(member)
        if self.capabilities.query == "user":
            query = query.history if able.query in _HISTORIES else query.id
        every = torch.arange(self.num_items).unsqueeze(0) if self._traced and able.tiled else None
        scores: Tensor = member.score_all(query) if every is None else member(query, every)
        return scores


def _query(kinds: Sequence[Query]) -> Query:
    """The input of a blend of models with these inputs."""
    if len(set(kinds)) == 1 and kinds[0] != "user":
        return kinds[0]
    if set(kinds) <= set(_HISTORIES):
        return "sequence"  # the order matters to one of them
    if set(kinds) <= {"ids", *_HISTORIES}:
        return "user"
    fail("members", f"of models with inputs {', '.join(dict.fromkeys(kinds))}", "models of the same task and input")
