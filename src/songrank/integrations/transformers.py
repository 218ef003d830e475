"""Losses for the ``Trainer`` of Hugging Face, and memory that survives its checkpoints and those of its subclasses.

>>> from songrank import SONG
>>> def train(model, tokenizer, dataset):                        # columns query, documents, labels
...     from transformers import Trainer, TrainingArguments
...     loss = ListLossFunction(SONG(0, gamma=1.0))
...     arguments = TrainingArguments("out", remove_unused_columns=False)
...     collator = ListCollator(tokenizer)
...     Trainer(model, arguments, collator, train_dataset=dataset, compute_loss_func=loss).train()
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from songrank.core.checks import fail
from songrank.core.errors import DataError
from songrank.core.gains import Gain
from songrank.core.relevance import Relevance
from songrank.integrations.trainer_loss import TrainerLoss, check_lists, check_numbered
from songrank.io.arrays import read_arrays
from songrank.io.files import write_whole
from songrank.losses.base import RankingLoss

__all__ = ["MEMORY_FILE", "ListCollator", "ListLossFunction", "MemoryCallback"]

MEMORY_FILE = "songrank_memory.safetensors"
"""The file in a checkpoint directory."""
_PADDING = -100.0
_MOST_LISTS = 2**24


class MemoryCallback(TrainerCallback):
    """Saves the memory of a loss in each checkpoint of the trainer, and loads it when the trainer resumes.

    For ``Trainer``, ``CrossEncoderTrainer`` and ``SentenceTransformerTrainer``. The memory is in the file
    ``songrank_memory.safetensors`` of the checkpoint directory.

    Args:
        loss: the loss that the trainer was given.
        resume_from: the checkpoint directory, if it is not in the ``output_dir`` of the trainer.

    >>> from songrank import SONG
    >>> callback = MemoryCallback(ListLossFunction(SONG(0, gamma=1.0)))
    """

    def __init__(self, loss: TrainerLoss, resume_from: str | Path | None = None) -> None:
        self.loss, self.resume_from = loss, resume_from

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Load the memory of the checkpoint from which the trainer resumes."""
        if state.global_step == 0:
            return
        folder = _folder(args, state) if self.resume_from is None else Path(self.resume_from)
        fix = "pass its directory: MemoryCallback(loss, resume_from=…); the checkpoint was written with MemoryCallback"
        self.loss.load_memory_state(read_arrays(folder / MEMORY_FILE, fix))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write the memory into the checkpoint."""
        from safetensors.torch import save

        if state.is_world_process_zero:
            folder = _folder(args, state)
            if not folder.is_dir():
                fix = "MemoryCallback does not support hyperparameter_search"
                raise DataError("the checkpoint directory is missing", fix, file=str(folder))
            state_of_loss = {name: value.cpu().contiguous() for name, value in self.loss.memory_state().items()}
            write_whole(folder / MEMORY_FILE, save(state_of_loss))


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"


class ListCollator:
    """Batches of whole lists for a sequence-classification model: rows with a query, its documents and their labels.

    ``batch["labels"]`` has one row per list: the number of the list (−1 without the column ``number``), then the labels
    of its documents, then −100 as padding. The other entries have one row per document. Pass
    ``remove_unused_columns=False`` to ``TrainingArguments``.

    Args:
        tokenizer: of the model.
        query: column with the text of the query.
        documents: column with a list of texts.
        labels: column with a list of numbers, 0 for irrelevant.
        number: column with the number of the list, for a loss with memory.
        options: arguments of the tokenizer besides ``padding`` and ``truncation``, which are on.
    """

    def __init__(
        self,
        tokenizer: Any,
        query: str = "query",
        documents: str = "documents",
        labels: str = "labels",
        number: str | None = None,
        **options: Any,
    ) -> None:
        self.tokenizer, self.number = tokenizer, number
        self.columns = (query, documents, labels)
        self.options = {"padding": True, "truncation": True, **options}

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch of these rows."""
        query, documents, labels = self.columns
        for name in (*self.columns, *([self.number] if self.number else [])):
            if name not in rows[0]:
                fix = "pass remove_unused_columns=False to TrainingArguments, or name the column"
                raise DataError(f"the rows have no column {name!r}", fix)
        check_lists([row[documents] for row in rows], [row[labels] for row in rows])
        queries = [row[query] for row in rows for _ in row[documents]]
        texts = [text for row in rows for text in row[documents]]
        tokens = self.tokenizer(queries, texts, return_tensors="pt", **self.options)
        graded = [torch.tensor([-1.0 if self.number is None else row[self.number], *row[labels]]) for row in rows]
        return {**tokens, "labels": pad_sequence(graded, batch_first=True, padding_value=_PADDING)}


class ListLossFunction(TrainerLoss):
    """A loss for ``Trainer(compute_loss_func=…)``: whole lists of documents, batched by :class:`ListCollator`.

    The model has one output per document. With gradient accumulation each part counts by its number of documents. Add
    :class:`MemoryCallback` to save the memory with each checkpoint.

    Args:
        loss: any loss of :mod:`songrank.losses` but the faster ones; ``SONG(0, gamma=1.0)`` keeps nothing.
        relevance: the lists of the training set, for a loss with memory: ``Relevance.from_lists(labels, lengths)``.
        gain: gain of a label.

    >>> from types import SimpleNamespace
    >>> from songrank import ListwiseCE
    >>> outputs = SimpleNamespace(logits=torch.zeros(3, 1, requires_grad=True))
    >>> labels = torch.tensor([[-1.0, 1.0, 0.0, 0.0]])                  # the list has no number; three documents
    >>> ListLossFunction(ListwiseCE(0, gamma=1.0))(outputs, labels)     # ln 3
    tensor(1.0986, grad_fn=<AddBackward0>)
    """

    def __init__(self, loss: RankingLoss, relevance: Relevance | None = None, gain: Gain = "exp2") -> None:
        super().__init__(loss, relevance, gain)
        check_numbered(self, relevance is not None, "relevance")
        if relevance is not None and relevance.num_queries > _MOST_LISTS:
            fail("relevance", repr(relevance), f"at most {_MOST_LISTS:,} lists, whose numbers are exact in float32")

    def forward(self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The loss of a batch, as ``Trainer`` calls it."""
        flat, number, grades = outputs.logits.reshape(-1).float(), labels[:, 0].long(), labels[:, 1:]
        mask = grades != _PADDING
        if flat.shape[0] != int(mask.sum()):
            what = f"the model has {flat.shape[0]} outputs for {int(mask.sum())} documents"
            raise DataError(what, "expected num_labels=1 and batches of ListCollator")
        grades = torch.where(mask, grades, 0.0)
        scores = flat.new_zeros(mask.shape).masked_scatter(mask, flat)
        if not torch.is_grad_enabled():
            return self.evaluated(scores, grades, mask)
        self.loss.to(scores.device)
        value = self.value(scores, self.whole_lists(grades, mask, number if bool((number >= 0).all()) else None))
        if num_items_in_batch is None:
            return value
        return value * ((labels != _PADDING).sum() / num_items_in_batch)
