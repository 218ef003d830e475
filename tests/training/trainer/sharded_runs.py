"""Small runs in float64; as a program, a process of a job that trains all of them, for test_sharded_runs.py."""

import sys
from contextlib import contextmanager
from pathlib import Path

import torch

from songrank.core.processes import ALONE, joined
from songrank.data import open_dataset
from songrank.losses.memory import MemoryTable
from songrank.training.build import make_trainer
from songrank.training.config.recipe_files import load_recipe
from songrank.training.trainer.shard import whole_rows

NO_DROPOUT = ["model.dropout=0"]
SMALL = ["model.dim=8", "batch.queries=16", "batch.irrelevant=10", "device=cpu", "warm_up.epochs=0"]
SMALL += ["fine_tuning.epochs=3", "fine_tuning.learning_rate=0.01", "validation.metric=ndcg@5"]
CATALOGUE = [*SMALL, "batch.relevant=3"]
NEUMF = ["model=neumf", "model.hidden=[8]", *NO_DROPOUT]
FACTORS = ["model=matrix-factorisation"]

CASES = {
    "neumf, song": ("recommendation", [*CATALOGUE, *NEUMF, "loss=song", "fine_tuning.clip=0.1"]),
    "factors, song": ("recommendation", [*CATALOGUE, *FACTORS, "loss=song"]),
}


@contextmanager
def doubles():
    """Models in float64, so that trajectories are not chaotic."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def build(data, case, processes=ALONE, **options):
    name, changes = CASES[case]
    recipe = load_recipe(name, [f"data={data}", *changes])
    with doubles():
        trainer = make_trainer(recipe, open_dataset(data), processes, save_every=0.0, **options)
    for stage in trainer.stages:
        for table in stage.loss.modules():
            if isinstance(table, MemoryTable):
                table.values = table.values.double()
    return trainer


def train(folder, processes=ALONE):
    """The weights, memory and history of each case, those of all processes together."""
    return {case: result(build(folder / name, case, processes)) for case, (name, _) in CASES.items()}


def result(trainer):
    weights = []
    with doubles():
        trainer.observe = lambda line: weights.append(shared(trainer))
        trainer.run()
    processes = trainer.processes
    with whole_rows(trainer.model, trainer.own_tables, processes):
        found = {f"model.{name}": value.detach().clone() for name, value in trainer.model.state_dict().items()}
    for number, stage in enumerate(trainer.stages):
        for name, table in stage.loss.named_modules():
            if isinstance(table, MemoryTable):
                found[f"{number}.{name}"] = processes.gather(table.read())
    return {"state": found, "history": trainer.at.history, "shared": weights, "best": trainer.result()}


def shared(trainer):
    """The shared weights of this process."""
    own = set(trainer.own_tables)
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters() if name not in own}


def main(folder, results):
    torch.set_num_threads(1)
    with joined("cpu") as own:
        torch.save(train(Path(folder), own), Path(results) / f"{own.rank}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
