"""SONG for a cross-encoder that ranks the documents of a query: ragged whole lists, Hugging Face transformers.

``python examples/cross_encoder.py`` trains a tiny BERT from scratch in seconds (``pip install transformers``);
``--model NAME`` fine-tunes a pretrained one. Texts are synthetic; the label of a document is the number of
words that it shares with its query.
"""

import argparse
import random
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification as AutoModel
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertTokenizer

from songrank import SONG, ListwiseCE, Slate
from songrank.metrics import ndcg

WORDS = [first + last for first in ("ba", "de", "fi", "go", "ku", "mo") for last in ("lan", "nor", "ris", "tep")]


class Question(NamedTuple):
    query: str
    documents: list[str]
    labels: Tensor


def synthetic_question(chance: random.Random) -> Question:
    """A query of two words, and five to nine documents of five words with none, one or both of them."""
    query, labels = chance.sample(WORDS, 2), [1, *chance.choices([0, 0, 0, 1, 1, 2], k=chance.randint(4, 8))]
    others = [word for word in WORDS if word not in query]
    words = [chance.sample(query, label) + chance.sample(others, 5 - label) for label in labels]
    return Question(" ".join(query), [" ".join(chance.sample(text, 5)) for text in words], torch.tensor(labels).float())


def tiny_bert() -> tuple[Any, Any]:
    """A tokenizer for the words above, and an untrained BERT with one layer."""
    vocabulary = {word: row for row, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    options: dict[str, Any] = {**sizes, **no_dropout, "initializer_range": 0.2, "num_labels": 1}
    bert: Any = BertForSequenceClassification  # untyped
    return BertTokenizer(vocab=vocabulary), bert(BertConfig(vocab_size=len(vocabulary), **options))


def pretrained(name: str) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name, num_labels=1)


def scores_of(model: Any, tokenizer: Any, questions: list[Question]) -> Tensor:
    """Scores [B, L] of the documents, lists padded to the longest."""
    queries = [question.query for question in questions for _ in question.documents]
    documents = [document for question in questions for document in question.documents]
    tokens = tokenizer(queries, documents, padding=True, truncation=True, return_tensors="pt").to(model.device)
    flat = model(**tokens).logits.squeeze(-1)
    return pad_sequence(flat.split([len(question.documents) for question in questions]), batch_first=True)


def slate_of(questions: list[Question], device: torch.device) -> Slate:
    """Labels and mask, padded like the scores. Whole lists with γ = 1 need no memory and no pair ids."""
    lengths = torch.tensor([len(question.documents) for question in questions])
    labels = pad_sequence([question.labels for question in questions], batch_first=True)
    mask = torch.arange(labels.shape[1]) < lengths.unsqueeze(1)
    return Slate.from_batch(labels, torch.arange(len(questions)), mask=mask).to(device)


@torch.no_grad()
def held_out_ndcg(model: Any, tokenizer: Any, questions: list[Question]) -> float:
    slate = slate_of(questions, model.device)
    return float(ndcg(scores_of(model.eval(), tokenizer, questions), slate.label, k=5, mask=slate.mask))


def main(name: str | None) -> None:
    torch.manual_seed(0)
    chance = random.Random(0)
    train, test = ([synthetic_question(chance) for _ in range(count)] for count in (300, 200))
    tokenizer, model = tiny_bert() if name is None else pretrained(name)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3 if name is None else 2e-5)
    print(f"untrained                    NDCG@5 {held_out_ndcg(model, tokenizer, test):.4f}")
    for stage, loss in (("warm-up (listwise CE)", ListwiseCE(0, gamma=1.0)), ("SONG", SONG(0, gamma=1.0))):
        for _ in range(10):
            chance.shuffle(train)
            for batch in (train[first : first + 32] for first in range(0, len(train), 32)):
                loss(scores_of(model.train(), tokenizer, batch), slate_of(batch, model.device)).backward()
                optimiser.step()
                optimiser.zero_grad()
        print(f"after {stage:22s} NDCG@5 {held_out_ndcg(model, tokenizer, test):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="Name on the Hugging Face hub, or a directory; by default a tiny BERT.")
    main(parser.parse_args().model)
