"""SONG for multi-label classification of texts with a Hugging Face encoder: warm-up, then SONG, over all labels.

``python examples/text_encoder.py`` trains a tiny DistilBERT from scratch in seconds (``pip install transformers``);
``--model NAME`` fine-tunes a pretrained one. Texts are synthetic: labels are the syllables that their words share.
"""

import argparse
import random
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, BertTokenizer, DistilBertConfig, DistilBertModel

from songrank import SONG, ListwiseCE, Slate
from songrank.metrics import ndcg
from songrank.models import TwoTower

FIRST, LAST = ("ba", "de", "fi", "go", "ku", "mo"), ("lan", "nor", "ris", "tep")
LABELS = FIRST + LAST
WORDS = [first + last for first in FIRST for last in LAST]


class TextEncoder(nn.Module):
    """Token ids [B, T] to vectors [B, D]: mean pooling of the last layer of any encoder."""

    def __init__(self, encoder: Any, padding: int) -> None:
        super().__init__()
        self.encoder, self.padding = encoder, padding

    def forward(self, tokens: Tensor) -> Tensor:
        mask = (tokens != self.padding).long()
        last: Tensor = self.encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        return (last * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


def labeller(tokenizer: Any, encoder: Any, num_labels: int) -> TwoTower:
    """A model with the API of songrank: ``model(tokens, item)`` and ``model.score_all(tokens)``."""
    text = TextEncoder(encoder, tokenizer.pad_token_id)
    return TwoTower(query_encoder=text, num_items=num_labels, dim=encoder.config.hidden_size)


def tiny_distilbert() -> tuple[Any, Any]:
    """A tokenizer for the words above, and an untrained DistilBERT with one layer."""
    vocabulary = {word: row for row, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    sizes = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0}
    config = DistilBertConfig(vocab_size=len(vocabulary), initializer_range=0.2, **sizes)  # type: ignore[arg-type]
    encoder: Any = DistilBertModel  # untyped
    return BertTokenizer(vocab=vocabulary), encoder(config)


def pretrained(name: str) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)


def synthetic_texts(count: int, seed: int) -> tuple[list[str], Tensor]:
    """Texts of seven or eight words; the label of a syllable is the number of words with it, minus 1."""
    chance = random.Random(seed)
    texts = [chance.sample(WORDS, chance.randint(7, 8)) for _ in range(count)]
    labels = [[max(0, sum(part in word for word in text) - 1) for part in LABELS] for text in texts]
    return [" ".join(text) for text in texts], torch.tensor(labels).float()


def numbers(tokenizer: Any, texts: list[str]) -> Tensor:
    """Token ids [B, T], padded to the longest text."""
    found: Tensor = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")["input_ids"]
    return found


@torch.no_grad()
def held_out_ndcg(model: TwoTower, tokens: Tensor, labels: Tensor) -> float:
    return float(ndcg(model.eval().score_all(tokens), labels, k=5))


def main(name: str | None) -> None:
    torch.manual_seed(0)
    tokenizer, encoder = tiny_distilbert() if name is None else pretrained(name)
    model = labeller(tokenizer, encoder, len(LABELS))
    (texts, labels), (unseen, truth) = synthetic_texts(500, seed=0), synthetic_texts(200, seed=1)
    tokens, unseen_tokens = numbers(tokenizer, texts), numbers(tokenizer, unseen)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3 if name is None else 2e-5)
    print(f"untrained                    NDCG@5 {held_out_ndcg(model, unseen_tokens, truth):.4f}")
    for stage, loss in (("warm-up (listwise CE)", ListwiseCE(0, gamma=1.0)), ("SONG", SONG(0, gamma=1.0))):
        for _ in range(8):
            for row in torch.split(torch.randperm(len(texts)), 32):
                slate = Slate.from_batch(labels[row], row)  # all labels and γ = 1: no memory
                loss(model.train()(tokens[row], slate.item), slate).backward()
                optimiser.step()
                optimiser.zero_grad()
        print(f"after {stage:22s} NDCG@5 {held_out_ndcg(model, unseen_tokens, truth):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="Encoder on the Hugging Face hub, or a directory; by default a tiny one.")
    main(parser.parse_args().model)
