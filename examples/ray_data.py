"""Batch inference with Ray Data: recommendations, labels or ranks from a songrank model in Ray's workers.

Run ``python examples/ray_data.py``. It trains a small model, recommends with one process and with Ray, and compares.
In production the model folder and the tables are on storage that all machines share.
"""

import tempfile
from pathlib import Path

import polars as pl
import ray

from songrank import Recommender
from songrank.serving import BatchPredictor

USERS, ITEMS = 400, 50


def train(folder: Path) -> None:
    rows = range(8 * USERS)
    clicks = {"user": [n // 8 for n in rows], "item": [(n * n + 3 * n // 8) % ITEMS for n in rows]}
    Recommender(model="ease", verbose=0).fit(clicks).save(folder)


def main() -> None:
    place = Path(tempfile.mkdtemp())
    train(place / "model")
    users = pl.DataFrame({"user": list(range(USERS))})
    users.write_parquet(place / "users.parquet")

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    found = (
        ray.data.read_parquet(str(place / "users.parquet"), override_num_blocks=4)
        .map_batches(  # each actor opens the model once
            BatchPredictor,
            fn_constructor_args=(place / "model",),
            fn_constructor_kwargs={"k": 5},
            batch_format="pyarrow",
            batch_size=100,
            compute=ray.data.ActorPoolStrategy(size=2),
            num_cpus=0.5,
        )
        .to_pandas()
    )
    ray.shutdown()

    alone = BatchPredictor(place / "model", k=5)(users)
    order = ["user", "rank"]
    assert pl.DataFrame(found).sort(order).drop("score").equals(alone.sort(order).drop("score"))
    print(f"{len(found):,} rows for {USERS} users, as in one process")


if __name__ == "__main__":
    main()
