"""Values of the recipe ``search`` from the arguments of a fit: batch, length of training and weight decay by the size
of the data, and metrics.
"""

import json
import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from songrank.core.errors import UserError, shown
from songrank.metrics.names import parse_metrics

MIN_STEPS, EPOCHS = 400, 10
_DECAY = {0.4: 0.5, 0.7: 0.3, 0.9: 0.3}  # learning rate factors by fraction of the epochs
_WEIGHT_DECAY = 0.01  # with as many columns as documents


def size_dependent(queries: int, documents: int, columns: int, epochs: int | None = None) -> list[str]:
    """Recipe changes for this number of training queries, documents and columns; ``epochs`` if they are given.

    - Batches have 16 queries, for more than 4,096 queries up to 64.
    - Training has 10 epochs, and at least 400 steps. The learning rate decreases after 40, 70 and 90 % of them.
    - The weight decay is 0.01 · columns / documents, within 10⁻⁵ and 10⁻²: an L2 prior of constant strength has the
      weight 1/n beside a mean over n documents, and many columns need a stronger one.

    >>> size_dependent(queries=201, documents=3005, columns=900)[:2]
    ['batch.queries=16', 'fine_tuning.epochs=31']
    >>> size_dependent(queries=50_000, documents=6_000_000, columns=408)[:2]
    ['batch.queries=64', 'fine_tuning.epochs=10']
    """
    batch = min(64, max(16, 2 ** int(math.log2(max(1, queries // 128)))))
    epochs = epochs or max(EPOCHS, math.ceil(MIN_STEPS / math.ceil(queries / batch)))
    weight_decay = min(1e-2, max(1e-5, _WEIGHT_DECAY * columns / documents))
    decay = {max(1, round(part * epochs)): factor for part, factor in _DECAY.items()}
    return [
        f"batch.queries={batch}",
        f"fine_tuning.epochs={epochs}",
        f"fine_tuning.decay={decay}",
        f"fine_tuning.weight_decay={weight_decay:.2e}",
    ]


def metric_changes(metric: str | Sequence[str] | None, at: Any) -> list[str]:
    """Recipe changes for LightGBM's ``eval_metric`` and ``eval_at``; the first metric is that of early stopping.

    >>> metric_changes(["ndcg", "mrr"], (5, 10))[0]
    'evaluation.metrics=["ndcg@5", "ndcg@10", "mrr@5", "mrr@10"]'
    >>> metric_changes("map@3", None)
    ['evaluation.metrics=["map@3"]', 'validation.metric=map@3']
    """
    if metric is None and at is None:
        return []
    names = ["ndcg"] if metric is None else [metric] if isinstance(metric, str) else list(metric)
    cutoffs = [] if at is None else [at] if isinstance(at, Integral) else list(at)
    if at is not None and (not cutoffs or not all(isinstance(k, Integral) and int(k) > 0 for k in cutoffs)):
        raise UserError(f"eval_at is {shown(at)}; expected whole numbers of at least 1")
    with_cutoff = [[name] if "@" in str(name) or not cutoffs else [f"{name}@{k}" for k in cutoffs] for name in names]
    try:
        found = [str(one) for one in parse_metrics([name for each in with_cutoff for name in each])]
    except (ValueError, TypeError) as error:
        raise UserError(f"eval_metric is {shown(metric)}; {error}") from None
    return [f"evaluation.metrics={json.dumps(found)}", f"validation.metric={found[0]}"]
