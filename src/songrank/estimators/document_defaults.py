"""Values of the recipe ``search`` that depend on the size of the data: batch, length of training, weight decay."""

import math

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
