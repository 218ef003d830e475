"""A small run as a program: it trains to the end, or until it is told to stop, and writes its weights."""

import signal
import sys
from pathlib import Path

import torch

from songrank import SONG, ListwiseCE, SlateSampler, models
from songrank.data import open_dataset
from songrank.training.checkpoints import Checkpoints
from songrank.training.trainer.history_adapters import make_adapter
from songrank.training.trainer.loop import Trainer
from songrank.training.trainer.stages import Stage


def trainer(dataset_folder, checkpoint_folder=None, ema_decay=0.6, **more):
    torch.manual_seed(3)
    feed = make_adapter(open_dataset(dataset_folder))
    model = models.create(
        "neumf", num_queries=feed.relevance.num_queries, num_items=feed.relevance.num_items, dim=8, hidden=(8,)
    )
    sampler = [SlateSampler(feed.relevance, 16, relevant=4, irrelevant=20, seed=seed) for seed in (0, 1)]
    pairs = feed.relevance.num_pairs
    decay = {"weight_decay": 1e-4, "item_decay_power": 0.5}
    stages = [
        Stage("warm-up", ListwiseCE(pairs), sampler[0], 4, 1e-2, clip=1.0, ema_decay=ema_decay),
        Stage(
            "fine-tuning", SONG(pairs), sampler[1], 6, 4e-3, {3: 0.25}, ema_decay=ema_decay, reset_head=True, **decay
        ),
    ]
    kept = None if checkpoint_folder is None else Checkpoints(Path(checkpoint_folder))
    return Trainer(model, feed, stages, **{"checkpoints": kept, "evaluate_every": 2, "seed": 5, **more})


def main():
    torch.set_num_threads(1)  # as the tests do: sums over more threads are rounded in another order
    run = trainer(sys.argv[1], sys.argv[2], save_every=0.0, observe=lambda line: print(line["step"], flush=True))
    signal.signal(signal.SIGTERM, lambda *_: run.stop())
    print("ready", flush=True)
    run.run()
    if run.stopped:
        sys.exit(143)
    torch.save([run.model.state_dict(), run.at.history], sys.argv[3])


if __name__ == "__main__":
    main()
