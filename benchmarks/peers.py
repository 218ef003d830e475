"""Other implementations of training: a straightforward step, and the loss of libauc in it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stepping import forever
from torch import Tensor, nn

from songrank import SONG, Relevance, SlateSampler

_KEPT = 16  # batches that are already on the device


def installed(name: str) -> bool:
    """Whether a package is installed; prints a line if not."""
    found = importlib.util.find_spec(name) is not None
    if not found:
        print(f"{name} is not installed: no comparison with it")
    return found


class Straightforward(nn.Module):
    """Straightforward NeuMF: every pair is embedded and passes through the full first layer."""

    def __init__(self, num_queries: int, num_items: int, dim: int = 64) -> None:
        super().__init__()
        self.query_product, self.item_product = nn.Embedding(num_queries, dim), nn.Embedding(num_items, dim)
        self.query_hidden, self.item_hidden = nn.Embedding(num_queries, dim), nn.Embedding(num_items, dim)
        self.network = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(2 * dim, 1, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.01)

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """Scores [B, L]."""
        query = query.unsqueeze(1).expand_as(item)
        product = self.query_product(query) * self.item_product(item)
        hidden = self.network(torch.cat([self.query_hidden(query), self.item_hidden(item)], -1))
        scores: Tensor = self.head(torch.cat([product, hidden], -1)).squeeze(-1)
        return scores


def _updater(relevance: Relevance, loss: Any) -> Callable[[Tensor, Tensor, Any], None]:
    """Scores, loss, gradient and the default Adam of torch on the straightforward model."""
    model = Straightforward(relevance.num_queries, relevance.num_items).to(relevance.device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)

    def update(query: Tensor, item: Tensor, batch: Any) -> None:
        optimiser.zero_grad()
        loss(model(query, item), batch).backward()
        optimiser.step()

    return update


def straightforward_step(relevance: Relevance, rows: int, relevant: int, irrelevant: int) -> Callable[[], None]:
    """Our slates and our loss in the straightforward step."""
    slates = forever(SlateSampler(relevance, rows, relevant, irrelevant, partial="drop"))
    update = _updater(relevance, SONG(relevance.num_pairs).to(relevance.device))

    def run() -> None:
        slate = next(slates)
        update(slate.query, slate.item, slate)

    return run


def _libauc_loss(relevance: Relevance, relevant: int) -> Any:
    from libauc.losses.ranking import NDCGLoss

    sizes = {"N": relevance.num_pairs, "num_user": relevance.num_queries, "num_item": relevance.num_items}
    return NDCGLoss(**sizes, num_pos=relevant, gamma0=0.1, device=relevance.device)


def libauc_loss_step(relevance: Relevance, rows: int, relevant: int, irrelevant: int) -> Callable[[], None]:
    """The loss of libauc in the straightforward step, with batches that are already on the device."""
    active = torch.nonzero(relevance.num_relevant >= relevant).squeeze(-1)  # libauc needs this number for each user
    sampler = SlateSampler(relevance, rows, relevant, irrelevant)
    update = _updater(relevance, _libauc_loss(relevance, relevant))
    batches = []
    for seed in range(_KEPT):
        chosen = torch.randint(active.shape[0], (rows,), generator=torch.Generator().manual_seed(seed))
        slate = sampler.draw(active[chosen.to(active.device)], seed)
        assert slate.pair is not None
        identity = torch.zeros_like(slate.item)
        identity[:, :relevant] = slate.pair
        batch = {"rating": slate.label, "user_id": slate.query, "num_pos_items": slate.num_relevant}
        batches.append((slate.query, slate.item, batch | {"ideal_dcg": slate.ideal_dcg, "user_item_id": identity}))
    at = 0

    def run() -> None:
        nonlocal at
        update(*batches[at % _KEPT])
        at += 1

    return run


def libauc_step(relevance: Relevance, rows: int, relevant: int, irrelevant: int) -> Callable[[], None]:
    """The loss of libauc in the straightforward step, with items sampled per user on the host, as in its examples."""
    device, items = relevance.device, relevance.num_items
    host = relevance.to("cpu")
    offsets, item, label = host.indptr.numpy(), host.item.numpy(), host.label.numpy()
    ideal = host.ideal_dcg().numpy()
    update = _updater(relevance, _libauc_loss(relevance, relevant))
    random = np.random.default_rng(0)
    active = np.flatnonzero(np.diff(offsets) >= relevant)

    def one(user: int) -> tuple[Any, ...]:
        first, last = int(offsets[user]), int(offsets[user + 1])
        places = first + random.choice(last - first, relevant, replace=False)
        taken = set(item[first:last].tolist())
        others: list[int] = []
        while len(others) < irrelevant:
            drawn = int(random.integers(items))
            if drawn not in taken:
                others.append(drawn)
        ratings = np.zeros(relevant + irrelevant, np.float32)
        ratings[:relevant] = label[places]
        return np.concatenate([item[places], others]), ratings, places, last - first, ideal[user]

    def run() -> None:
        users = random.choice(active, rows)
        columns = [np.stack(column) for column in zip(*(one(user) for user in users.tolist()), strict=True)]
        items_, ratings, places, counts, best = (torch.from_numpy(column).to(device) for column in columns)
        identity = torch.zeros(rows, relevant + irrelevant, dtype=torch.int64, device=device)
        identity[:, :relevant] = places
        query = torch.from_numpy(users).to(device)
        batch = {"rating": ratings, "user_id": query, "num_pos_items": counts, "ideal_dcg": best}
        update(query, items_.long(), batch | {"user_item_id": identity})

    return run
