"""Small models of every kind, with queries for them."""

import torch
from torch import nn

from songrank import models

QUERIES, ITEMS, FEATURES, WORDS = 7, 23, 6, 30

EDGES = torch.tensor([[0, 0, 1, 1, 1, 2, 3, 3, 4, 6], [3, 9, 3, 9, 17, 4, 9, 22, 0, 22]])  # none of query 5


def ids(rows):
    return torch.arange(rows) % QUERIES


def dense(rows):
    """Half of the features are 0, and the second row has none at all."""
    generator = torch.Generator().manual_seed(rows)
    features = torch.randn(rows, FEATURES, generator=generator) * (
        torch.rand(rows, FEATURES, generator=generator) < 0.5
    )
    features[1 % rows] = 0.0
    return features


def csr(rows):
    return dense(rows).to_sparse_csr()


def bags(rows):
    return parts(dense(rows))


def parts(features):
    """Indices, offsets and values, as tensors of their own: the compiler does not take views of a sparse tensor."""
    table = features.to_sparse_csr()
    return table.col_indices().clone(), table.crow_indices().clone(), table.values().clone()


def tokens(rows):
    """Texts of several lengths, one without words."""
    generator = torch.Generator().manual_seed(rows)
    words = torch.randint(1, WORDS, (rows, 11), generator=generator)
    length = torch.randint(1, 12, (rows, 1), generator=generator)
    length[0] = 0
    return torch.where(torch.arange(11) < length, words, 0)


def encoders(**options):
    towers = {
        "query_encoder": nn.Sequential(nn.Linear(FEATURES, 9), nn.Tanh(), nn.Linear(9, 5)),
        "item_encoder": nn.Linear(4, 5),
        "item_features": torch.randn(ITEMS, 4),
    }
    return models.TwoTower(**towers, **options)


CATALOGUE = {
    "neumf": (lambda: models.NeuMF(QUERIES, ITEMS, dim=5, hidden=(4,)), ids),
    "neumf, two layers": (lambda: models.NeuMF(QUERIES, ITEMS, dim=5, hidden=(4, 3)), ids),
    "factors": (lambda: models.MatrixFactorisation(QUERIES, ITEMS, dim=5), ids),
    "factors without bias": (lambda: models.MatrixFactorisation(QUERIES, ITEMS, dim=5, bias=False), ids),
    "factors, cosine": (lambda: models.MatrixFactorisation(QUERIES, ITEMS, 5, scoring="cosine", temperature=0.2), ids),
    "factors, cosine, learned temperature": (
        lambda: models.MatrixFactorisation(
            QUERIES, ITEMS, 5, scoring="cosine", temperature=0.2, learn_temperature=True
        ),
        ids,
    ),
    "lightgcn": (lambda: models.LightGCN(QUERIES, ITEMS, EDGES, dim=5), ids),
    "lightgcn, cosine": (
        lambda: models.LightGCN(QUERIES, ITEMS, EDGES, 5, 3, "cosine", temperature=0.2, learn_temperature=True),
        ids,
    ),
    "towers, fixed temperature": (
        lambda: models.TwoTower(QUERIES, ITEMS, dim=5, scoring="cosine", temperature=0.2, learn_temperature=False),
        ids,
    ),
    "towers of ids": (lambda: models.TwoTower(QUERIES, ITEMS, dim=5, temperature=0.5), ids),
    "towers, cosine": (lambda: models.TwoTower(QUERIES, ITEMS, dim=5, similarity="cosine"), ids),
    "towers of features": (encoders, dense),
    "towers of features, cosine": (lambda: encoders(similarity="cosine", temperature=0.1), dense),
    "labels, dense": (lambda: models.LabelMLP(FEATURES, ITEMS, hidden=(8,), dropout=0.2), dense),
    "labels, csr": (lambda: models.LabelMLP(FEATURES, ITEMS, hidden=(8, 5), activation="gelu"), csr),
    "labels, bags": (lambda: models.LabelMLP(FEATURES, ITEMS, hidden=(8,)), bags),
    "labels, linear and dense": (lambda: models.LabelMLP(FEATURES, ITEMS, hidden=()), dense),
    "labels, linear and bags": (lambda: models.LabelMLP(FEATURES, ITEMS, hidden=()), bags),
    "xml-cnn": (
        lambda: models.XMLCNN(WORDS, ITEMS, dim=6, filters=4, windows=(1, 2, 4), pools=3, bottleneck=9),
        tokens,
    ),
    "text-transformer": (lambda: models.TextTransformer(WORDS, ITEMS, dim=8, heads=2, length=9), tokens),
}

LISTS = {
    "mlp": lambda: models.MLPScorer(FEATURES, hidden=(8, 5), dropout=0.1),
    "mlp, linear": lambda: models.MLPScorer(FEATURES, hidden=(), activation="tanh"),
    "context-aware": lambda: models.ContextAwareRanker(FEATURES, dim=8, feed_forward=12),
    "context-aware, two heads": lambda: models.ContextAwareRanker(FEATURES, dim=8, heads=2, blocks=1, feed_forward=12),
}


def catalogue(name, rows=4, *, seed=0, dtype=torch.float32):
    """A model in evaluation mode, and a query for it."""
    build, query = CATALOGUE[name]
    torch.manual_seed(seed)
    return build().eval().to(dtype), cast(query(rows), dtype)


def cast(query, dtype):
    if isinstance(query, tuple):
        return (*query[:2], query[2].to(dtype))
    return query.to(dtype) if query.is_floating_point() else query


def listed(name, *, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return LISTS[name]().eval().to(dtype)


def lists(seed=0, rows=4, columns=9, dtype=torch.float32):
    """Features [B, L, F] and a mask with padding at the end of some rows."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(1, columns + 1, (rows, 1), generator=generator)
    length[0] = columns
    features = torch.randn(rows, columns, FEATURES, generator=generator, dtype=torch.float64)
    return features.to(dtype), torch.arange(columns) < length
