"""SONG in your own loop: a small recommender on synthetic data, warm-up and fine-tuning, in seconds.

Run ``python examples/own_loop.py``. Users prefer items that are near them in a latent space.
"""

import torch
from torch import Tensor, nn

from songrank import SONG, ListwiseCE, Relevance, SlateSampler
from songrank.metrics import evaluate_catalogue

USERS, ITEMS, WIDTH = 1200, 600, 16


def synthetic_interactions(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(user, item, is held out): the 24 items with the highest noisy preference per user, four of them held out."""
    generator = torch.Generator().manual_seed(seed)
    taste = torch.randn(USERS, 6, generator=generator) @ torch.randn(6, ITEMS, generator=generator)
    noisy = taste + 1.5 * torch.randn(USERS, ITEMS, generator=generator)
    item = noisy.topk(24, dim=1).indices
    user = torch.arange(USERS).unsqueeze(1).expand_as(item)
    held_out = torch.rand(item.shape, generator=generator).argsort(1) < 4
    return user.flatten(), item.flatten(), held_out.flatten()


class Factors(nn.Module):
    """Matrix factorisation. Any module that returns scores [B, L] works."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, WIDTH), nn.Embedding(ITEMS, WIDTH)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        return torch.einsum("bd,bld->bl", self.user(query), self.item(item))

    def score_all(self, query: Tensor) -> Tensor:
        return torch.mm(self.user(query), self.item.weight.T)


def held_out_ndcg(model: Factors, test: Relevance) -> float:
    """NDCG@10 among all items except the user's seen items."""
    return evaluate_catalogue(model, test, metrics=["ndcg@10"]).values["ndcg@10"]


def main() -> None:
    torch.manual_seed(0)
    user, item, held_out = synthetic_interactions()
    train = Relevance.from_pairs(user[~held_out], item[~held_out], num_queries=USERS, num_items=ITEMS)
    seen = (user[~held_out], item[~held_out])
    test = Relevance.from_pairs(user[held_out], item[held_out], num_queries=USERS, num_items=ITEMS, exclude=seen)

    model = Factors()
    sampler = SlateSampler(train, queries_per_batch=128, relevant=8, irrelevant=64)
    print(f"untrained                    NDCG@10 {held_out_ndcg(model, test):.4f}")
    for name, loss, epochs, rate in (
        ("warm-up (listwise CE)", ListwiseCE(train.num_pairs), 25, 1e-2),
        ("SONG", SONG(train.num_pairs), 25, 3e-3),
    ):
        optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=1e-4)
        for _ in range(epochs):
            for slate in sampler:
                optimiser.zero_grad()
                loss(model(slate.query, slate.item), slate).backward()
                optimiser.step()
        print(f"after {name:22s} NDCG@10 {held_out_ndcg(model, test):.4f}")


if __name__ == "__main__":
    main()
