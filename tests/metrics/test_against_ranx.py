import numpy as np
import pytest
import torch
from ranx import Qrels, Run, evaluate

from songrank.metrics import evaluate_lists

CUTS = (2, 10, 20)
NAMES = ("ndcg", "map", "mrr", "precision", "recall", "hit_rate")


def test_every_metric_agrees_with_ranx_where_nothing_is_tied():
    rng = np.random.default_rng(3)
    queries, size = 50, 15
    scores = rng.permuted(np.tile(np.arange(float(size)), (queries, 1)), axis=1)
    labels = np.maximum(rng.integers(0, 7, (queries, size)) - 3, 0)
    labels[:, 0] = np.maximum(labels[:, 0], 1)
    query_names = [f"q{query:02d}" for query in range(queries)]  # ranx returns queries by name
    item_names = [f"d{item:02d}" for item in range(size)]
    relevant = [np.flatnonzero(row) for row in labels]
    qrels = Qrels(
        {
            query: {item_names[i]: int(row[i]) for i in where}
            for query, row, where in zip(query_names, labels, relevant, strict=True)
        }
    )
    run = Run(
        {
            query: dict(zip(item_names, row.tolist(), strict=True))
            for query, row in zip(query_names, scores, strict=True)
        }
    )
    theirs = evaluate(qrels, run, [f"{name}@{k}" for name in (*NAMES, "ndcg_burges") for k in CUTS], return_mean=False)

    ours = {
        gain: evaluate_lists(
            torch.tensor(scores),
            torch.tensor(labels),
            metrics=[f"{name}@{k}" for name in NAMES for k in CUTS],
            gain=gain,
        ).per_query
        for gain in ("linear", "exp2")
    }
    for k in CUTS:
        for name in NAMES:
            assert ours["linear"][f"{name}@{k}"].tolist() == pytest.approx(list(theirs[f"{name}@{k}"])), (name, k)
        assert ours["exp2"][f"ndcg@{k}"].tolist() == pytest.approx(list(theirs[f"ndcg_burges@{k}"]))
