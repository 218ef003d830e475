"""Training with Spark's TorchDistributor: songrank joins its process group, and each process has a range of the users.

Run ``python examples/spark_train.py``; Spark needs Java 17 or later. In production the data and the run are on storage
that all machines share, and ``local_mode`` is False.
"""

import tempfile
from pathlib import Path

from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession

from songrank.analysis.evaluate import evaluate_run
from songrank.data import prepare
from songrank.training.run_directory import RunDirectory

USERS, ITEMS, PROCESSES = 400, 60, 2
CHANGES = ["model=matrix-factorisation", "warm_up.epochs=1", "fine_tuning.epochs=4", "device=cpu"]


def train(data: str, output: str) -> None:
    """Train in a process; all processes call it with the same arguments."""
    from songrank.core.processes import joined
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run

    with joined("cpu") as processes:
        recipe = load_recipe("recommendation", [f"data={data}", *CHANGES])
        Run.begin(recipe, output, processes=processes).finish()


def main() -> None:
    place = Path(tempfile.mkdtemp())
    rows = range(12 * USERS)
    clicks = {"user": [n // 12 for n in rows], "item": [(n // 12 + n * n % 17) % ITEMS for n in rows]}
    prepare("interactions", clicks, place / "data")
    spark = SparkSession.builder.master(f"local[{PROCESSES}]").config("spark.ui.enabled", False).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    distributor = TorchDistributor(num_processes=PROCESSES, local_mode=True, use_gpu=False)
    distributor.run(train, str(place / "data"), str(place / "run"))
    spark.stop()
    print(f"trained by {RunDirectory(place / 'run').notes()['processes']} processes")
    print(evaluate_run(place / "run", device="cpu"))


if __name__ == "__main__":
    main()
