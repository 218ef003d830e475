"""Training with Ray Train: songrank joins the process group that Ray starts, and each worker has a range of the users.

Run ``python examples/ray_train.py``. In production the data and the run are on storage that all machines share.
"""

import tempfile
from pathlib import Path
from typing import Any

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from songrank.analysis.evaluate import evaluate_run
from songrank.data import prepare
from songrank.training.run_directory import RunDirectory

USERS, ITEMS, WORKERS = 400, 60, 2
CHANGES = ["model=matrix-factorisation", "warm_up.epochs=1", "fine_tuning.epochs=4", "device=cpu"]


def train(config: dict[str, Any]) -> None:
    """Train in a worker; all workers call it with the same arguments."""
    from songrank.core.processes import joined
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run

    with joined("cpu") as processes:
        recipe = load_recipe("recommendation", [f"data={config['data']}", *CHANGES])
        Run.begin(recipe, config["run"], processes=processes).finish()


def main() -> None:
    place = Path(tempfile.mkdtemp())
    rows = range(12 * USERS)
    clicks = {"user": [n // 12 for n in rows], "item": [(n // 12 + n * n % 17) % ITEMS for n in rows]}
    prepare("interactions", clicks, place / "data")
    ray.init(num_cpus=WORKERS, include_dashboard=False, configure_logging=False)
    trainer = TorchTrainer(
        train,
        train_loop_config={"data": str(place / "data"), "run": str(place / "run")},
        scaling_config=ScalingConfig(num_workers=WORKERS),
        run_config=RunConfig(storage_path=str(place / "ray")),
    )
    trainer.fit()
    ray.shutdown()
    print(f"trained by {RunDirectory(place / 'run').notes()['processes']} processes")
    print(evaluate_run(place / "run", device="cpu"))


if __name__ == "__main__":
    main()
