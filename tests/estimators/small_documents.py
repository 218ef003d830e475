"""A few lists of documents, and a ranker that learns them in no time."""

import numpy as np

from songrank.estimators import DocumentRanker

SMALL = {"model.hidden": [8], "warm_up.epochs": 2, "batch.queries": 4}
PREPARED = {"quantiles": True, "within_query": "all", "standardise": True, "shrink": True, "split": "given"}
PREPARED |= {"missing": "mean", "missing_flags": True}
NAMES = ["bm25", "clicks", "age", "label"]  # the last one is also what a table calls its labels


def ranker(**more):
    return DocumentRanker(**{"epochs": 4, "options": SMALL, "device": "cpu", "verbose": 0, **more})


def documents(seed=0, lists=16, longest=9):
    """X, y, group: the label follows the first feature."""
    generator = np.random.default_rng(seed)
    group = generator.integers(2, longest, lists)
    X = generator.normal(size=(group.sum(), len(NAMES))).astype(np.float32)
    X[:, 1] = np.exp(3 * X[:, 1])
    y = np.clip(np.round(X[:, 0] + 0.1 * generator.normal(size=len(X))), 0, 3)
    X[generator.random(X.shape) < 0.05] = np.nan
    return X, y, group


X, Y, GROUP = documents()
QID = np.repeat(np.arange(len(GROUP)), GROUP)


def weights_of(fitted, tmp_path, name="saved"):
    fitted.save(tmp_path / name)
    return (tmp_path / name / "model.safetensors").read_bytes()
