"""Losses for the trainers of sentence-transformers: reranking with a cross-encoder, retrieval with embeddings.

>>> from songrank import SONG
>>> from songrank.integrations.sentence_transformers import RerankingLoss
>>> def train(encoder, dataset):                               # columns query, documents, labels
...     from sentence_transformers.cross_encoder import CrossEncoderTrainer
...     loss = RerankingLoss(encoder, SONG(0, gamma=1.0))
...     CrossEncoderTrainer(encoder, train_dataset=dataset, loss=loss).train()
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.checks import check_int, check_number, fail
from songrank.core.errors import DataError
from songrank.core.gains import Gain
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.integrations.trainer_loss import TrainerLoss, check_lists, check_numbered
from songrank.losses.base import RankingLoss
from songrank.sampling import SlateSampler

__all__ = ["RerankingLoss", "RetrievalLoss"]


class RerankingLoss(TrainerLoss):
    """A loss for ``CrossEncoderTrainer``: lists of documents with graded labels.

    Rows have the columns query (a text), documents (a list of texts), labels (a list of numbers, 0 for irrelevant) and,
    for a loss with memory, the number of the list. Column names are free, except that of the labels; the order counts.

    Without ``sampler`` each step scores whole lists. With ``sampler`` it scores a sample of each list, and the loss
    estimates the ranks in the whole list; the lists of the sampler are the rows of the training set, in their order:

        Relevance.from_lists([y for row in dataset["labels"] for y in row], [len(row) for row in dataset["labels"]])

    Add ``MemoryCallback`` (:mod:`songrank.integrations.transformers`) to save the memory with each checkpoint.

    Args:
        model: the ``CrossEncoder``, with one output.
        loss: any loss of :mod:`songrank.losses` but the faster ones; ``SONG(0, gamma=1.0)`` for whole lists.
        sampler: draws the documents of a step, ``SlateSampler(relevance, length=16)``; needed by losses with memory.
            ``SlateSampler(relevance, relevant="all", irrelevant="all")`` for whole lists.
        gain: gain of a label on whole lists; that of the sampler otherwise.
        activation: applied to the scores of the model before the loss.
        mini_batch_size: number of documents per forward pass; None for all at once. Does not change the result.

    >>> from songrank import SONG, Relevance
    >>> lists = Relevance.from_lists(labels=[1, 0, 0, 2, 0], lengths=[3, 2])
    >>> loss = RerankingLoss(torch.nn.Linear(1, 1), SONG(lists.num_pairs), SlateSampler(lists, length=3))
    >>> loss.numbered
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss: RankingLoss,
        sampler: SlateSampler | None = None,
        *,
        gain: Gain = "exp2",
        activation: Callable[[Tensor], Tensor] | None = None,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__(
            loss, None if sampler is None else sampler.relevance, gain if sampler is None else sampler.gain
        )
        check_numbered(self, sampler is not None, "sampler")
        if sampler is not None and sampler.relevance.is_catalogue:
            fail("sampler.relevance", repr(sampler.relevance), "lists: Relevance.from_lists(labels, lengths)")
        if sampler is not None and loss.k is not None and sampler.k != loss.k:
            fail("sampler.k", sampler.k, f"the k of the loss, {loss.k}")
        self.model, self.sampler, self.activation = model, sampler, activation
        self.mini_batch_size = None if mini_batch_size is None else check_int("mini_batch_size", mini_batch_size)

    def forward(
        self,
        inputs: Sequence[Any],
        labels: list[Tensor],
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """The loss of a batch, as ``CrossEncoderTrainer`` calls it."""
        queries, lists, number = self._columns(inputs, labels)
        options = {"prompt": prompt, "task": task}
        if not torch.is_grad_enabled() or number is None or self.sampler is None:
            grades, mask = _padded(labels)
            scores = self._scores(queries, lists, mask, options)
            grades, mask = grades.to(scores.device), mask.to(scores.device)
            if not torch.is_grad_enabled():
                return self.evaluated(scores, grades, mask)
            return self.value(scores, self.whole_lists(grades, mask, number))
        slate, drawn = self._drawn(lists, labels, number)
        scores = self._scores(queries, drawn, slate.mask, options)
        return self.value(scores, slate.to(scores.device))

    def get_config_dict(self) -> dict[str, str | int | None]:
        """What the model card shows."""
        return {"loss": repr(self.loss), "sampler": repr(self.sampler), "mini_batch_size": self.mini_batch_size}

    def _columns(self, inputs: Sequence[Any], labels: list[Tensor]) -> tuple[list[str], list[list[str]], Tensor | None]:
        """Queries, documents and the numbers of the lists."""
        if not 2 <= len(inputs) <= 3:
            columns = "query, documents and labels, and the number of the list for a loss with memory"
            raise DataError(f"the data set has {len(inputs)} columns besides the labels", f"expected {columns}")
        queries, lists = inputs[0], inputs[1]
        check_lists(lists, labels)
        number = torch.as_tensor(inputs[2], dtype=torch.int64) if len(inputs) == 3 else None
        if number is None and self.sampler is not None and torch.is_grad_enabled():
            raise DataError("the data set has no list number", "add a column: dataset.add_column('list', range(n))")
        return queries, lists, number

    def _drawn(self, lists: list[list[str]], labels: list[Tensor], number: Tensor) -> tuple[Slate, list[list[str]]]:
        """A sample of the lists, on the CPU, and its documents."""
        sampler, relevance = self.sampler, self._relevance()
        assert sampler is not None
        assert relevance.list_start is not None
        number = self._known(number).to(relevance.device)
        slate = sampler.draw(number, epoch=self.steps).to("cpu")
        sizes = relevance.list_span[number].tolist()
        place = torch.where(slate.mask, slate.item - relevance.list_start[number].cpu().unsqueeze(1), 0)
        for row, (size, found) in enumerate(zip(sizes, labels, strict=True)):
            mask = slate.mask[row]
            if size != len(found) or not torch.equal(found.cpu()[place[row][mask]].float(), slate.label[row][mask]):
                what = f"list {int(number[row])} of the batch is not list {int(number[row])} of the sampler"
                raise DataError(what, "build the relevance of the sampler from the training set, in its order")
        columns = [row[mask].tolist() for row, mask in zip(place, slate.mask, strict=True)]
        return slate, [[texts[at] for at in chosen] for texts, chosen in zip(lists, columns, strict=True)]

    def _scores(self, queries: list[str], lists: list[list[str]], mask: Tensor, options: dict[str, Any]) -> Tensor:
        """Scores [B, L] on the model's device, 0 where ``mask`` is False."""
        pairs = [(query, text) for query, texts in zip(queries, lists, strict=True) for text in texts]
        device, size = next(self.model.parameters()).device, self.mini_batch_size or max(len(pairs), 1)
        parts: list[Tensor] = []
        for first in range(0, len(pairs), size):
            tokens = self.model.preprocess(pairs[first : first + size], **options)  # type: ignore[operator]
            moved = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in tokens.items()}
            parts.append(self.model(moved)["scores"].reshape(-1))
        flat = torch.cat(parts).float()
        if flat.shape[0] != len(pairs):
            fail("model", f"{flat.shape[0] // len(pairs)} outputs per text", "a cross-encoder with num_labels=1")
        flat = flat if self.activation is None else self.activation(flat)
        return flat.new_zeros(mask.shape).masked_scatter(mask.to(device), flat)


class RetrievalLoss(TrainerLoss):
    """A loss for ``SentenceTransformerTrainer``: queries and documents as vectors, candidates from the batch.

    Rows have the columns query and document, and any number of columns with other documents (hard negatives). All
    documents of the batch are candidates for each query.

    Without ``relevance`` the document in the second column is the only relevant one, and its rank is that within the
    batch, as in ``MultipleNegativesRankingLoss``. With ``relevance`` the ranks are those in the whole collection, of
    which the batch is a sample, and all documents that are relevant to a query count as relevant, so that there are no
    false negatives; the label column then holds the ids ``[query, document, other documents …]`` of each row. Documents
    of the batch count as a uniform sample of the irrelevant ones; relevant documents that are not in the batch are left
    out of the rank.

    Args:
        model: the ``SentenceTransformer``.
        loss: any loss of :mod:`songrank.losses` but the faster ones; ``SONG(0, gamma=1.0)`` without ``relevance``,
            ``SONG(relevance.num_pairs)`` with it. ``surrogate="exponential"`` suits cosines.
        relevance: the relevant pairs of queries and documents, ``Relevance.from_pairs(query, document, num_items=…)``.
        scale: factor of the similarities, 1 / temperature.
        similarity: function of two matrices of vectors; the cosine by default.
        gain: gain of a label.

    >>> from songrank import SONG, Relevance
    >>> relevance = Relevance.from_pairs(query=[0, 1, 1], item=[0, 1, 2], num_items=1000)
    >>> loss = RetrievalLoss(torch.nn.Linear(1, 1), SONG(relevance.num_pairs, surrogate="exponential"), relevance)
    >>> loss.numbered
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss: RankingLoss,
        relevance: Relevance | None = None,
        *,
        scale: float = 20.0,
        similarity: Callable[[Tensor, Tensor], Tensor] | None = None,
        gain: Gain = "exp2",
    ) -> None:
        super().__init__(loss, relevance, gain)
        check_numbered(self, relevance is not None, "relevance")
        if relevance is not None and not relevance.is_catalogue:
            fail("relevance", repr(relevance), "pairs of queries and documents: Relevance.from_pairs")
        if relevance is not None and relevance.taken_item is not relevance.item:
            fail("relevance", repr(relevance), "pairs without exclude: all documents are candidates")
        self.model, self.scale = model, check_number("scale", scale, 0.0, low_open=True)
        self.similarity = similarity or _cosine

    def forward(self, sentence_features: Sequence[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """The loss of a batch, as ``SentenceTransformerTrainer`` calls it."""
        vectors = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(vectors) < 2:
            raise DataError(f"the data set has {len(vectors)} column of texts", "expected query and document")
        queries, documents = vectors[0].float(), torch.cat(vectors[1:]).float()
        if self.relevance is None or labels is None:
            if self.relevance is not None and torch.is_grad_enabled():
                raise DataError("the data set has no labels", "expected a column label: [query, document, …] as ids")
            grades = torch.eye(len(queries), len(documents), device=queries.device)
            return self._value(queries, documents, grades, None)
        ids = self._ids(labels, len(vectors))
        query, row = _first(ids[:, 0])
        item, column = _first(ids[:, 1:].T.reshape(-1))  # the order of the documents: column by column
        pair = self.relevance.pair_index(query.repeat_interleave(len(item)), item.repeat(len(query)))
        return self._value(queries[row], documents[column], *self._graded(query, pair.view(len(query), len(item))))

    def get_config_dict(self) -> dict[str, str | float]:
        """What the model card shows."""
        return {"loss": repr(self.loss), "relevance": repr(self.relevance), "scale": self.scale}

    def _value(self, queries: Tensor, documents: Tensor, grades: Tensor, slate: Slate | None) -> Tensor:
        scores, mask = self.scale * self.similarity(queries, documents), torch.ones_like(grades, dtype=torch.bool)
        grades, mask = grades.to(scores.device), mask.to(scores.device)
        if not torch.is_grad_enabled():
            return self.evaluated(scores, grades, mask)
        return self.value(scores, self.whole_lists(grades, mask, None) if slate is None else slate.to(scores.device))

    def _ids(self, labels: Tensor, columns: int) -> Tensor:
        """[B, columns]: the ids of each row, checked."""
        relevance = self._relevance()
        if labels.dim() != 2 or labels.shape[1] != columns or labels.is_floating_point():
            found = f"the labels of a batch have shape {list(labels.shape)} and type {labels.dtype}"
            raise DataError(found, f"expected {columns} whole numbers per row: the ids of the query and its documents")
        ids = labels.to(relevance.device)
        for name, values, count in (
            ("query", ids[:, 0], relevance.num_queries),
            ("document", ids[:, 1:], relevance.num_items),
        ):
            if int(values.min()) < 0 or int(values.max()) >= count:
                worst = int(values.min()) if int(values.min()) < 0 else int(values.max())
                raise DataError(f"the id of a {name} is {worst}", f"expected 0 to {count - 1}, those of the relevance")
        return ids

    def _graded(self, query: Tensor, pair: Tensor) -> tuple[Tensor, Slate]:
        """Labels of the candidates, and their slate, whose lists are those of the whole collection."""
        relevance = self._relevance()
        here = pair >= 0
        grades = torch.where(here, relevance.label[pair.clamp_min(0)], 0.0)
        width = max(int(here.sum(1).max()), 1)
        column = here.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :width]
        slate = Slate(
            query=query,
            item=torch.arange(pair.shape[1], device=pair.device).unsqueeze(0),
            label=grades,
            mask=torch.ones_like(here),
            pair=pair.gather(1, column),
            column=column,
            list_size=relevance.list_size[query],
            num_relevant=relevance.num_relevant[query],
            ideal_dcg=relevance.ideal_dcg(self.loss.k, self.gain)[query],
            k=self.loss.k,
            gain=self.gain,
            row_weight=here.any(1).to(grades.dtype),
            complete=True,
        )
        return grades, slate


def _cosine(queries: Tensor, documents: Tensor) -> Tensor:
    return nn.functional.normalize(queries, dim=-1) @ nn.functional.normalize(documents, dim=-1).T


def _padded(labels: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Labels [B, L] and mask of lists of different lengths."""
    lengths = torch.tensor([len(label) for label in labels])
    grades = nn.utils.rnn.pad_sequence([label.float().cpu() for label in labels], batch_first=True)
    return grades, torch.arange(grades.shape[1]) < lengths.unsqueeze(1)


def _first(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct ids, in order, and the first place of each.

    >>> _first(torch.tensor([7, 5, 7, 5]))
    (tensor([5, 7]), tensor([1, 0]))
    """
    distinct, inverse = torch.unique(ids, return_inverse=True)
    place = torch.arange(ids.shape[0], device=ids.device)
    first = torch.full_like(distinct, ids.shape[0]).scatter_reduce_(0, inverse, place, "amin")
    return distinct, first
