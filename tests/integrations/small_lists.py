"""Small lists of texts, and models of sentence-transformers reduced to what a loss calls."""

import torch
from torch import nn

from songrank import Relevance

ROWS = [
    ("q0", ["a", "b", "c", "d", "e"], [0.0, 2.0, 0.0, 1.0, 0.0]),
    ("q1", ["b", "c", "e"], [1.0, 0.0, 0.0]),
    ("q2", ["d", "a", "c", "b"], [0.0, 0.0, 1.0, 2.0]),
    ("q3", ["e", "a"], [0.0, 1.0]),
]
QUERIES, DOCUMENTS, LABELS = (list(column) for column in zip(*ROWS, strict=True))
TENSORS = [torch.tensor(labels) for labels in LABELS]


def relevance():
    return Relevance.from_lists([y for row in LABELS for y in row], [len(row) for row in LABELS])


class Scorer(nn.Module):
    """A cross-encoder: a query and a document are one character that counts; a score is an entry of a table."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.table = nn.Parameter(torch.randn(4, 5, generator=generator))
        self.calls = []

    def preprocess(self, pairs, prompt=None, task=None):
        self.calls.append((len(pairs), prompt, task))
        return {"query": torch.tensor([int(query[1:]) for query, _ in pairs]), "text": [text for _, text in pairs]}

    def forward(self, tokens):
        columns = torch.tensor(["abcde".index(text) for text in tokens["text"]])
        return {"scores": self.table[tokens["query"], columns].unsqueeze(1)}

    def of(self, query, texts):
        return self.table[query, torch.tensor(["abcde".index(text) for text in texts])]


class Embedder(nn.Module):
    """A sentence encoder: a text is a row of a table."""

    def __init__(self, rows=12, dim=3):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, dim, generator=torch.Generator().manual_seed(5)))

    def forward(self, features):
        return {"sentence_embedding": self.table[features["input_ids"]]}
