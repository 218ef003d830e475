"""Small runs in float64; as a program, a process of a job that trains all of them, for test_sharded_runs.py."""

import sys
from contextlib import contextmanager
from pathlib import Path

import torch

from songrank.core.processes import ALONE, joined
from songrank.data import open_dataset
from songrank.losses.memory import MemoryTable
from songrank.training.build import make_trainer
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe_files import load_recipe
from songrank.training.trainer import decisions, history_adapters
from songrank.training.trainer.history_adapters import HistoryAdapter
from songrank.training.trainer.shard import Reduction

SMALL = ["batch.queries=16", "device=cpu", "warm_up.epochs=0", "fine_tuning.epochs=2", "fine_tuning.ema_decay=0.5"]
SMALL += ["fine_tuning.learning_rate=0.01", "fine_tuning.decay={1: 0.5}"]
CATALOGUE = [*SMALL, "batch.relevant=3", "batch.irrelevant=10", "model.dim=8", "validation.metric=ndcg@5"]
FACTORS = [*CATALOGUE, "model=matrix-factorisation"]
NEUMF = [*CATALOGUE, "model=neumf", "model.hidden=[8]", "model.dropout=0"]
COSINE = ["model.scoring=cosine", "model.temperature=0.2", "model.learn_temperature=true"]
TWO_STAGES = ["warm_up.epochs=2", "warm_up.learning_rate=0.01", "fine_tuning.reset_head=true"]
LIGHTGCN = [*CATALOGUE, "model=lightgcn"]
SEQUENCE = ["model.dim=8", "model.blocks=1", "model.heads=1", "model.length=6", "model.dropout=0"]
SEQUENCES = [*SMALL, *SEQUENCE, "validation.metric=ndcg@5", "batch.irrelevant=all"]
HISTORY = ["model.dim=8", "model.length=9", "model.dropout=0", "batch.relevant=3", "batch.irrelevant=10"]
SEARCH = [*SMALL, "batch.queries=4", "model.hidden=[8]", "model.dropout=0"]
ATTENTION = ["model.dim=8", "model.blocks=1", "model.heads=1", "model.dropout=0"]
CONVOLUTIONS = ["model.dim=4", "model.filters=2", "model.windows=[2]", "model.pools=2", "model.bottleneck=4"]
CONVOLUTIONS += ["model.dropout=0"]
WORDS = [*SMALL, "batch.queries=4", "model=text-transformer", *ATTENTION, "model.length=8"]
TEXTS = [*SMALL, "model.hidden=[8]", "model.dropout=0", "batch.queries=4"]

CASES = {
    "neumf, song, clip": ("recommendation", [*NEUMF, "loss=song", "fine_tuning.clip=0.01"]),
    "neumf, k-song, head reset": ("recommendation", [*NEUMF, *TWO_STAGES, "loss=k-song", "loss.k=3"]),
    "neumf, padded": ("recommendation", [*NEUMF, *TWO_STAGES, "loss=k-song", "fine_tuning.clip=0.01"]),
    "faster song, padded": ("recommendation", [*NEUMF, "loss=faster-song"]),
    "factors, all items, padded": ("recommendation", [*FACTORS, "loss=song", "batch.irrelevant=all"]),
    "lists with weights, padded": ("search", [*SEARCH, "loss=song", "loss.gamma=0.5"]),
    "neumf, lazy-adam": ("recommendation", [*NEUMF, "loss=song", "fine_tuning.optimiser=lazy-adam"]),
    "factors, sgd": ("recommendation", [*FACTORS, "loss=song", "fine_tuning.optimiser=sgd"]),
    "factors, item decay": (
        "recommendation",
        [*FACTORS, "loss=song", "fine_tuning.weight_decay=0.01", "fine_tuning.item_decay_power=0.5"],
    ),
    "factors, all items": ("recommendation", [*FACTORS, "loss=k-song", "batch.irrelevant=all"]),
    "factors, sampled validation": ("recommendation", [*FACTORS, "loss=song", "validation.candidates=7"]),
    "towers": ("recommendation", [*CATALOGUE, "model=two-tower", *COSINE, "loss=song"]),
    "lightgcn": ("recommendation", [*LIGHTGCN, "loss=song"]),
    "faster song": ("recommendation", [*NEUMF, "loss=faster-song"]),
    "faster k-song, sgd": (
        "recommendation",
        [*FACTORS, "loss=faster-k-song", "loss.k=3", "fine_tuning.optimiser=sgd"],
    ),
    "faster k-song, one point": ("recommendation", [*FACTORS, "loss=faster-k-song", "loss.k=3", "loss.points=1"]),
    **{
        loss: ("recommendation", [*FACTORS, f"loss={loss}"])
        for loss in ("listwise-ce", "sl-at-k", "psl", "bsl", "softmax", "bpr", "lambdarank", "gumbel-approx-ndcg")
    },
    "sequence": ("sequences", [*SEQUENCES, "loss=song"]),
    "sequence, shared items": ("sequences", [*SEQUENCES, "loss=k-song", "loss.k=3", "batch.irrelevant=9"]),
    "sequence, sliding windows": ("sequences", [*SEQUENCES, "loss=song", "batch.windows=sliding"]),
    "sequence, prefixes": ("sequences", [*SEQUENCES, "loss=softmax", "batch.windows=prefix", "batch.irrelevant=9"]),
    "sequence, in parts": ("sequences", [*SEQUENCES, "loss=song", "batch.irrelevant=9"]),
    "history": ("histories", [*SMALL, *HISTORY, "loss=song", "validation.metric=ndcg@5"]),
    "lists with weights": ("search", [*SEARCH, "loss=song", "loss.gamma=0.5"]),
    "context-aware": (
        "search",
        [*SMALL, "batch.queries=4", "model=context-aware", *ATTENTION, "model.feed_forward=8", "loss=song"],
    ),
    "words": ("labelling-text", [*SMALL, *CONVOLUTIONS, "batch.queries=4", "loss=song", "loss.gamma=0.5"]),
    "words, k-song": ("labelling-text", [*WORDS, "loss=k-song", "loss.k=3", "loss.gamma=0.5"]),
    "features": ("labelling", [*TEXTS, "loss=k-song", "loss.gamma=0.5"]),
}
"""The recipe and its changes, by what is special about a run."""
DATA = {"sequences": "recommendation", "histories": "recommendation"}


class Recorded(Reduction):
    """Reads nothing on the host after two steps, as if it were recorded."""

    steps = 0

    def begin(self):
        super().begin()
        self.steps = 0

    def __call__(self, optimiser, total, weight):
        self.steps += 1
        if self.steps <= 2:
            return super().__call__(optimiser, total, weight)
        with self.recording(total.device):
            found = super().__call__(optimiser, total, weight)
        self.decisions.replayed()
        return found


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
    room = history_adapters._SLATE_BYTES
    if case.endswith("in parts"):
        history_adapters._SLATE_BYTES = 1500
    with doubles():
        trainer = make_trainer(recipe, open_dataset(data), processes, save_every=0.0, **options)
    history_adapters._SLATE_BYTES = room
    assert (trainer.stages[0].at_once is not None) == case.endswith("in parts")
    if case.endswith("padded") and trainer._reduction is not None:  # as in a captured CUDA graph
        trainer._reduction.__class__ = Recorded
        for stage in trainer.stages:
            stage.sampler.padded = True
    trainer.model.register_forward_pre_hook(lambda model, given: tuple(map(double, given)))
    for stage in trainer.stages:
        for table in stage.loss.modules():
            if isinstance(table, MemoryTable):
                table.values = table.values.double()
    return trainer


def double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def train(folder, processes=ALONE):
    """The weights, memory and history of each case, those of all processes together."""
    return {case: result(build(folder / DATA.get(name, name), case, processes)) for case, (name, _) in CASES.items()}


def result(trainer):
    weights = []
    trainer.observe = lambda line: weights.append(shared(trainer))
    trainer.run()
    processes = trainer.processes
    found = {f"model.{name}": value.detach().clone() for name, value in trainer.model.state_dict().items()}
    for name in trainer.own_rows.tables:
        found[f"model.{name}"] = processes.gather(found[f"model.{name}"])
    for number, stage in enumerate(trainer.stages):
        for name, table in stage.loss.named_modules():
            if isinstance(table, MemoryTable):
                found[f"{number}.{name}"] = processes.gather(table.read())
    told = {"history": trainer.at.history, "shared": weights, "best": trainer.result()}
    return {"state": found, **told, "held": held(trainer)}


def held(trainer):
    """The numbers of values of pairs, rows of users and loss memory that this process has in memory."""
    relevance, tables = trainer.adapter.relevance, trainer.own_rows.tables
    memory = [table for stage in trainer.stages for table in stage.loss.modules() if isinstance(table, MemoryTable)]
    found = {"pairs": [relevance.item, relevance.label], "memory": [table.values[:-1] for table in memory]}
    found |= {"rows": [trainer.model.get_parameter(name) for name in tables]}
    found |= {"histories": [trainer.adapter.histories["item"]] if isinstance(trainer.adapter, HistoryAdapter) else []}
    return {
        name: sum(some.untyped_storage().nbytes() // some.element_size() for some in values) - extra
        for name, values in found.items()
        for extra in [len(values) if name == "memory" else 0]
    }


def shared(trainer):
    """The shared weights of this process."""
    own = set(trainer.own_rows.tables)
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters() if name not in own}


RESUMED = ("neumf, k-song, head reset", "neumf, lazy-adam", "faster k-song, sgd", "sequence, shared items", "lightgcn")
RESUMED += ("neumf, padded",)


def train_on(folder, kept, processes=ALONE, stop_at=None):
    """Train some cases with checkpoints; one process asks to stop at a step."""
    found = {}
    for case in RESUMED:
        checkpoints = Checkpoints(kept / case, processes=processes)
        trainer = build(folder / DATA.get(CASES[case][0], CASES[case][0]), case, processes, checkpoints=checkpoints)

        def tick(trainer=trainer):
            if trainer.at.step == stop_at and processes.rank == processes.world - 1:
                trainer.stop()

        trainer.tick = tick
        found[case] = result(trainer) | {"stopped": trainer.stopped, "step": trainer.at.step}
    return found


def main(folder, results, kept=None, stop_at=None):
    torch.set_num_threads(1)
    decisions._REPLAYS = 1
    with joined("cpu") as own:
        found = train(Path(folder), own) if kept is None else None
        found = found or train_on(Path(folder), Path(kept), own, int(stop_at) if stop_at else None)
        torch.save(found, Path(results) / f"{own.rank}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
