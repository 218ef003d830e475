"""Several processes: fits in joblib workers, slates from DataLoader workers, answers from spawned processes.

Run ``python examples/processes.py``. Each process has one thread, because together they use all cores. The guard
``if __name__ == "__main__"`` is needed: a spawned process imports this file.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from songrank import Recommender, Relevance, Slate, SlateSampler
from songrank.losses import SoftmaxCE

USERS, ITEMS = 200, 60
WORKERS = 2


def synthetic_clicks() -> dict[str, list[int]]:
    """Each user prefers the items near one place of a circle."""
    random = torch.Generator().manual_seed(0)
    distance = (torch.arange(ITEMS) - torch.randint(0, ITEMS, (USERS, 1), generator=random)).abs()
    far = torch.minimum(distance, ITEMS - distance) + 6 * torch.randn(USERS, ITEMS, generator=random)
    item = far.topk(12, largest=False).indices
    return {"user": torch.arange(USERS).repeat_interleave(12).tolist(), "item": item.flatten().tolist()}


def fit(seed: int, folder: Path) -> tuple[int, float]:
    """Fit with this seed, save the model, and return its NDCG."""
    torch.set_num_threads(1)
    model = Recommender(model="matrix-factorisation", epochs=5, random_state=seed, verbose=0).fit(synthetic_clicks())
    model.save(folder / str(seed))
    return seed, model.evaluation_["test"].values["ndcg@10"]


class Slates(IterableDataset):  # type: ignore[type-arg]
    """The slates of an epoch, drawn by DataLoader workers: each has its share of the users."""

    def __init__(self, user: torch.Tensor, item: torch.Tensor) -> None:
        self.user, self.item = user, item

    def __iter__(self) -> Iterator[Slate]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        own = self.user % workers == number
        relevance = Relevance.from_pairs(self.user[own], self.item[own], num_queries=USERS, num_items=ITEMS)
        yield from SlateSampler(relevance, queries_per_batch=32, relevant=4, irrelevant=16, seed=number)


def own_loop() -> tuple[float, float]:
    """Train with a loss without memory on slates of the workers; return the first and the last epoch's loss."""
    torch.manual_seed(0)
    clicks = {name: torch.tensor(column) for name, column in synthetic_clicks().items()}
    users, items = torch.nn.Embedding(USERS, 8), torch.nn.Embedding(ITEMS, 8)
    optimiser = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.05)
    loader = DataLoader(Slates(clicks["user"], clicks["item"]), batch_size=None, num_workers=WORKERS)
    loss, epochs = SoftmaxCE(), []
    for _ in range(3):
        values = []
        for slate in loader:
            value = loss(torch.einsum("bd,bld->bl", users(slate.query), items(slate.item.clamp_min(0))), slate)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            values.append(value.item())
        epochs.append(sum(values) / len(values))
    return epochs[0], epochs[-1]


def best_item(folder: Path, user: int) -> int:
    """The best unseen item of a user, in a process that loads the model by itself."""
    torch.set_num_threads(1)
    return int(Recommender.load(folder).recommend([user], k=1)["item"][0])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        # joblib's default back end starts new processes; backend="multiprocessing" would fork this one.
        results = Parallel(n_jobs=WORKERS)(delayed(fit)(seed, Path(name)) for seed in (0, 1))
        for seed, ndcg in results:
            print(f"seed {seed}: NDCG@10 {ndcg:.4f}")
        best, _ = max(results, key=lambda result: result[1])

        # Other processes: spawn, since a forked process would wait for threads that it does not have.
        with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
            answers = list(pool.map(best_item, [Path(name) / str(best)] * 4, range(4)))
        print("best items of users 0 to 3:", *answers)

    first, last = own_loop()
    print(f"own loop: loss {first:.3f} in the first epoch, {last:.3f} in the last")


if __name__ == "__main__":
    main()
