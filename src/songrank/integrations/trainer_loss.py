"""The common part of losses that a trainer of another library calls: slates, evaluation and the state of the memory."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import fail
from songrank.core.errors import DataError
from songrank.core.gains import Gain, check_gain
from songrank.core.processes import processes
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.losses.base import MemoryLoss, RankingLoss
from songrank.metrics import ndcg

_LOSS = "loss."


class TrainerLoss(nn.Module):
    """Base class of the losses for other trainers: a :class:`songrank.losses.RankingLoss` and what it needs per step.

    With gradients disabled, as in the evaluation of all trainers, the value is −NDCG of the whole lists (−NDCG@K for a
    loss with K), in which lists without a relevant item count 0, and the memory does not change. The best checkpoint
    by ``eval_loss`` is then the best by NDCG.

    In a job of several processes each process keeps the whole memory: after each step they exchange the rows that they
    have updated.

    Args:
        loss: any loss of :mod:`songrank.losses` but the faster ones, which need a second forward pass.
        relevance: the lists of the training set, which number the rows of the memory; None for a loss that keeps
            nothing between steps (no memory, or γ = 1 and no thresholds).
        gain: gain of a label on whole lists.
    """

    def __init__(self, loss: RankingLoss, relevance: Relevance | None, gain: Gain = "exp2") -> None:
        super().__init__()
        if not isinstance(loss, RankingLoss):
            fail("loss", type(loss).__name__, "a loss of songrank.losses, such as SONG(0, gamma=1.0)", TypeError)
        name = type(loss).__name__
        if loss.traits.previous_point:
            fail("loss", name, f"{name.removeprefix('Faster')}: {name} needs the scores at the previous weights")
        check_gain(gain)
        self.loss, self.relevance, self.gain = loss, relevance, gain
        self.steps = 0
        """Training steps taken; the items of a sample depend on it."""

    @property
    def numbered(self) -> bool:
        """Whether the loss keeps something between steps, and so needs to know which list it is given."""
        return isinstance(self.loss, MemoryLoss) and (self.loss.gamma < 1.0 or bool(self.loss.by_query))

    def memory_state(self) -> dict[str, Tensor]:
        """What the loss keeps between steps; tensors by name."""
        state = {_LOSS + name: value.detach() for name, value in self.loss.state_dict().items()}
        return {**state, "steps": torch.tensor(self.steps)}

    def load_memory_state(self, state: dict[str, Tensor]) -> None:
        """Continue from a :meth:`memory_state`."""
        self.loss.load_state_dict({name.removeprefix(_LOSS): state[name] for name in state if name.startswith(_LOSS)})
        self.steps = int(state["steps"])

    def value(self, scores: Tensor, slate: Slate) -> Tensor:
        """The loss of a training step; updates the memory, also that of the other processes."""
        value: Tensor = self.loss(scores, slate)
        self._exchange(slate)
        self.steps += 1
        return value

    def evaluated(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """−NDCG of these lists."""
        options: dict[str, Any] = {"k": self.loss.k, "mask": mask, "empty": "zero"}
        return -ndcg(scores.detach().cpu(), labels.cpu(), gain=self.gain, **options).to(scores.device, scores.dtype)

    def whole_lists(self, labels: Tensor, mask: Tensor, number: Tensor | None) -> Slate:
        """The slate of whole lists, on the device of the labels; lists without a relevant item have weight 0."""
        relevant = mask & (labels > 0)
        query, pair = torch.arange(labels.shape[0], device=labels.device), None
        if self.numbered:
            query, relevance = self._known(number), self._relevance()
            local = query.to(relevance.device)
            if bool((relevance.list_span[local].to(mask.device) != mask.sum(1)).any()):
                raise _other_lists()
            first = relevance.indptr[local].to(labels.device)
            pair = torch.where(relevant, first.unsqueeze(1) + relevant.cumsum(1) - 1, -1)
        has_relevant = relevant.any(1).to(labels.dtype)
        return Slate.from_batch(
            labels, query, pair, mask, k=self.loss.k, gain=self.gain, row_weight=has_relevant, validate=False
        )

    def _known(self, number: Tensor | None) -> Tensor:
        """The numbers of the lists, which are rows of the relevance."""
        count = self._relevance().num_queries
        if number is None:
            what = f"{type(self.loss).__name__} keeps memory, but the rows of the training set have no list number"
            raise DataError(what, f"add a column with a number from 0 to {count - 1}")
        if number.numel() and not 0 <= int(number.min()) <= int(number.max()) < count:
            found = f"the number of a list is {int(number.min() if number.min() < 0 else number.max())}"
            raise DataError(found, f"expected 0 to {count - 1}: the relevance has {count} lists")
        return number

    def _relevance(self) -> Relevance:
        if self.relevance is None:
            fail("relevance", None, "the lists of the training set")
        return self.relevance

    def _exchange(self, slate: Slate) -> None:
        """Write the rows that other processes have updated."""
        group, loss = processes(), self.loss
        if group.world == 1 or not isinstance(loss, MemoryLoss):
            return
        rows = loss.gather(slate)
        for names, ids in ((loss.by_pair, slate.pair), (loss.by_query, slate.query)):
            if ids is not None and names and loss.table(names[0]).num_rows:
                everywhere = group.gather(ids.reshape(-1))
                for name in names:
                    loss.table(name).scatter(everywhere, group.gather(rows[name].reshape(-1)))


def check_numbered(loss: TrainerLoss, given: bool, argument: str) -> None:
    """Raise if a loss with memory has nothing that numbers its rows."""
    if loss.numbered and not given:
        own = loss.loss
        assert isinstance(own, MemoryLoss)
        kept = "a threshold per query" if own.gamma == 1.0 else f"memory (gamma={own.gamma:g})"
        fail(argument, None, f"the lists of the training set: {type(own).__name__} keeps {kept}")


def check_lists(lists: Sequence[Sequence[str]], labels: Sequence[Sequence[float] | Tensor]) -> None:
    """Raise unless each list of documents has one label of at least 0 for each.

    >>> check_lists([["a text", "another"]], [[1.0]])
    Traceback (most recent call last):
    songrank.core.errors.DataError: a query has 2 documents and 1 labels; expected one label for each document
    """
    for documents, own in zip(lists, labels, strict=True):
        if not isinstance(documents, list | tuple):
            raise DataError("the documents of a query are one text", "expected a list of texts")
        values = torch.as_tensor(own)
        if values.dim() != 1:
            raise DataError("the labels of a query are one number", "expected a list, one label for each document")
        if len(documents) != len(values):
            what = f"a query has {len(documents)} documents and {len(values)} labels"
            raise DataError(what, "expected one label for each document")
        if not bool((torch.isfinite(values) & (values >= 0)).all()):
            raise DataError(f"the labels of a query are {values.tolist()}", "expected finite numbers of at least 0")


def _other_lists() -> DataError:
    what = "a list of the batch is not the list of this number in the relevance"
    return DataError(what, "build the relevance from the training set, in its order")
