"""One whole training step of NeuMF: draw 256 × (10 + 300), score, loss, gradient, dense Adam; MovieLens-20M's shape.

Four ways side by side in one process:

* ours: the step that ``songrank train`` takes on this device (a recorded graph on a GPU);
* plain: the same without a graph (``--speed plain``); on a CPU it is the same step;
* straightforward: embed, concatenate, MLP, our loss, torch's default Adam: what one writes first;
* libauc: the same model with libauc's loss, and items drawn on the host user by user, as its examples do.

    python benchmarks/training_step.py [--device cuda] [--losses song k-song bce …]

Beside each time stands its floor: the bytes that dense Adam must move at the speed of a large copy on this machine.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from shapes import MOVIELENS_20M, long_tailed
from timing import medians, table
from torch import Tensor, nn

from songrank import SONG, Relevance, Slate, SlateSampler, models
from songrank.training.components import make_component
from songrank.training.feeds import Feed
from songrank.training.stages import Stage
from songrank.training.step import Counters, PlainStep, make_step

ROWS, RELEVANT, IRRELEVANT, DIM = 256, 10, 300, 64


class Pairs:
    """A feed without a data set."""

    def __init__(self, relevance: Relevance) -> None:
        self.relevance = relevance

    def scores(self, model: Any, slate: Slate) -> Tensor:
        answer: Tensor = model(slate.query, slate.item)
        return answer

    def evaluate(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class Straightforward(nn.Module):
    """NeuMF as one writes it first: every pair is embedded and goes through the whole first layer."""

    def __init__(self, num_queries: int, num_items: int) -> None:
        super().__init__()
        self.query_product, self.item_product = nn.Embedding(num_queries, DIM), nn.Embedding(num_items, DIM)
        self.query_hidden, self.item_hidden = nn.Embedding(num_queries, DIM), nn.Embedding(num_items, DIM)
        self.network = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(2 * DIM, 1, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.01)

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        query = query.unsqueeze(1).expand_as(item)
        product = self.query_product(query) * self.item_product(item)
        hidden = self.network(torch.cat([self.query_hidden(query), self.item_hidden(item)], -1))
        scores: Tensor = self.head(torch.cat([product, hidden], -1)).squeeze(-1)
        return scores


def our_step(relevance: Relevance, name: str, speed: str) -> Callable[[], None]:
    sizes = {"num_pairs": relevance.num_pairs, "num_queries": relevance.num_queries, "seed": 0}
    given: dict[str, Any] = {"name": name, **({"k": 300} if name == "k-song" else {})}
    loss = make_component("loss", given, sizes).to(relevance.device)
    sampler = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT, k=loss.k, partial="pad")
    model = models.create("neumf", num_queries=relevance.num_queries, num_items=relevance.num_items)
    model = model.to(relevance.device).train()
    stage = Stage("fine-tuning", loss, sampler, 1, 1e-3)
    feed: Feed = Pairs(relevance)
    optimiser = stage.make_optimiser(model)
    parts = (model, feed, stage, optimiser, Counters(relevance.device), False)
    step: PlainStep = make_step(*parts, speed=speed, warn=print)
    slates = _forever(sampler)
    return lambda: step(next(slates))


def _forever(sampler: SlateSampler) -> Any:
    while True:
        yield from sampler


def straightforward_step(relevance: Relevance) -> Callable[[], None]:
    sampler = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT, partial="drop")
    model = Straightforward(relevance.num_queries, relevance.num_items).to(relevance.device)
    loss = SONG(relevance.num_pairs).to(relevance.device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    slates = _forever(sampler)

    def run() -> None:
        slate = next(slates)
        optimiser.zero_grad()
        loss(model(slate.query, slate.item), slate).backward()
        optimiser.step()

    return run


def libauc_step(relevance: Relevance) -> Callable[[], None] | None:
    """libauc's loss with items drawn user by user on the host."""
    try:
        from libauc.losses.ranking import NDCGLoss
    except ImportError:
        print("libauc is not installed: no comparison (pip install --no-deps libauc==2.0.1)")
        return None
    device, items = relevance.device, relevance.num_items
    host = relevance.to("cpu")
    offsets, item, label = host.indptr.numpy(), host.item.numpy(), host.label.numpy()
    ideal = host.ideal_dcg().numpy()
    model = Straightforward(relevance.num_queries, items).to(device)
    sizes = {"N": relevance.num_pairs, "num_user": relevance.num_queries, "num_item": items, "num_pos": RELEVANT}
    loss = NDCGLoss(**sizes, gamma0=0.1, device=device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    random = np.random.default_rng(0)
    active = np.flatnonzero(np.diff(offsets) >= RELEVANT)

    def one(user: int) -> tuple[Any, ...]:
        first, last = int(offsets[user]), int(offsets[user + 1])
        rows = first + random.choice(last - first, RELEVANT, replace=False)
        taken = set(item[first:last].tolist())
        others: list[int] = []
        while len(others) < IRRELEVANT:
            drawn = int(random.integers(items))
            if drawn not in taken:
                others.append(drawn)
        ratings = np.zeros(RELEVANT + IRRELEVANT, np.float32)
        ratings[:RELEVANT] = label[rows]
        return np.concatenate([item[rows], others]), ratings, rows, last - first, ideal[user]

    def run() -> None:
        users = random.choice(active, ROWS, replace=False)
        columns = [np.stack(column) for column in zip(*(one(user) for user in users.tolist()), strict=True)]
        items_, ratings, rows, counts, best = (torch.from_numpy(column).to(device) for column in columns)
        identity = torch.zeros(ROWS, RELEVANT + IRRELEVANT, dtype=torch.int64, device=device)
        identity[:, :RELEVANT] = rows
        query = torch.from_numpy(users).to(device)
        batch = {"rating": ratings, "user_id": query, "num_pos_items": counts, "ideal_dcg": best}
        batch["user_item_id"] = identity
        optimiser.zero_grad()
        loss(model(query, items_.long()), batch).backward()
        optimiser.step()

    return run


def adam_floor(relevance: Relevance) -> float:
    """Milliseconds for what Adam must read and write of all tables, at the speed of a large copy."""
    weights = 2 * (relevance.num_queries + relevance.num_items) * DIM
    source = torch.empty(2**26, device=relevance.device).normal_()
    target = torch.empty_like(source)
    copy = medians({"copy": lambda: target.copy_(source)}, 10)["copy"]
    bytes_a_millisecond = 2 * source.numel() * 4 / copy
    return weights * 4 * 7 / bytes_a_millisecond  # read w, m, v, g; write w, m, v


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=MOVIELENS_20M[2])
    parser.add_argument("--losses", nargs="*", default=["song"])
    options = parser.parse_args()
    relevance = long_tailed(*MOVIELENS_20M[:2], options.pairs).to(options.device)
    steps = {f"ours, {name}": our_step(relevance, name, "auto") for name in options.losses}
    if relevance.device.type == "cuda":
        steps |= {f"plain, {name}": our_step(relevance, name, "plain") for name in options.losses}
    steps["straightforward, song"] = straightforward_step(relevance)
    slow = libauc_step(relevance)
    found = medians(steps, options.rounds, 6)
    if slow is not None:
        found |= medians({"libauc, song": slow}, max(3, options.rounds // 4), 1)
    table(f"one training step, {ROWS} × {RELEVANT + IRRELEVANT}, {relevance}", found, "straightforward, song")
    if slow is not None:
        ratio = found["libauc, song"] / found[f"ours, {options.losses[0]}"]
        print(f"  ours is {ratio:.1f} × as fast as libauc's loss with users drawn one by one")
    floor = adam_floor(relevance)
    print(f"  floor by dense Adam's traffic alone: {floor:.3f} ms")


if __name__ == "__main__":
    main()
