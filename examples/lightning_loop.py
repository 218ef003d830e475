"""SONG in a Lightning loop: documents of a query, ragged lists sampled to a fixed length, warm-up and fine-tuning.

Run ``python examples/lightning_loop.py`` (``pip install lightning``). The documents are synthetic; labels are a noisy,
non-linear function of the features.
"""

import lightning
import torch
from torch import Tensor, nn

from songrank import SONG, ListwiseCE, Relevance, Slate, SlateSampler
from songrank.integrations.lightning import SlateDataModule
from songrank.metrics import evaluate_lists

FEATURES, WARM_UP_EPOCHS, EPOCHS = 12, 5, 15


def synthetic_lists(queries: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(features, labels, lengths): concatenated lists of 20 to 60 documents, with noisy labels from 0 to 2."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(20, 61, (queries,), generator=generator)
    features = torch.randn(int(lengths.sum()), FEATURES, generator=generator)
    merit = features[:, 0] + 2 * features[:, 1] * features[:, 2] + torch.randn(len(features), generator=generator)
    return features, (merit > 1.5).float() + (merit > 3.0).float(), lengths


class Ranker(lightning.LightningModule):
    """A multilayer perceptron over each document. The losses are submodules, so they are moved and saved with it.

    ``SlateDataModule`` makes the sampler the data loader and saves its position, on which the sampled items depend.
    """

    features: Tensor

    def __init__(self, features: Tensor, sampler: SlateSampler) -> None:
        super().__init__()
        self.sampler = sampler
        self.model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
        self.warm_up = ListwiseCE(sampler.relevance.num_pairs)
        self.song = SONG(sampler.relevance.num_pairs)
        self.register_buffer("features", features, persistent=False)

    def forward(self, documents: Tensor) -> Tensor:
        scores: Tensor = self.model(documents).squeeze(-1)
        return scores

    def training_step(self, slate: Slate, batch_index: int) -> Tensor:
        loss = self.warm_up if self.current_epoch < WARM_UP_EPOCHS else self.song
        scores = self(self.features[slate.item])  # slate.item: rows of the feature matrix
        self.log("objective", loss.objective(scores, slate), batch_size=len(slate.query))
        value: Tensor = loss(scores, slate)
        return value

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=3e-3)


def untrained(seed: int = 0) -> Ranker:
    """The model on 300 synthetic queries, with 32 queries per step and 16 documents per query."""
    torch.manual_seed(seed)
    features, labels, lengths = synthetic_lists(300, seed=1)
    return Ranker(features, SlateSampler(Relevance.from_lists(labels, lengths), queries_per_batch=32, length=16))


@torch.no_grad()
def held_out_ndcg(ranker: Ranker) -> float:
    """NDCG@10 on whole lists of held-out queries."""
    features, labels, lengths = synthetic_lists(200, seed=2)
    return evaluate_lists(ranker(features), labels, lengths=lengths, metrics=["ndcg@10"]).values["ndcg@10"]


def main() -> None:
    ranker = untrained()
    print(f"untrained               NDCG@10 {held_out_ndcg(ranker):.4f}")
    slates = SlateDataModule(ranker.sampler)
    lightning.Trainer(max_epochs=EPOCHS, logger=False, enable_checkpointing=False).fit(ranker, slates)
    print(f"after warm-up and SONG  NDCG@10 {held_out_ndcg(ranker.cpu()):.4f}")


if __name__ == "__main__":
    main()
