"""A process of test_trainer_loss.py: its share of each batch, then the memory of the loss."""

import torch

from songrank import KSONG, Relevance, SlateSampler
from songrank.core.processes import joined
from songrank.integrations.trainer_loss import TrainerLoss


def main():
    labels = (torch.rand(40, 6, generator=torch.Generator().manual_seed(1)) < 0.4).float()
    labels[:, 0] = 1.0
    relevance = Relevance.from_lists(labels.flatten(), torch.full((40,), 6))
    sampler = SlateSampler(relevance, relevant=2, irrelevant=2, k=3)
    with joined("cpu") as own:
        loss = TrainerLoss(KSONG(relevance.num_pairs, 40, k=3), relevance)
        for step in range(8):
            batch = torch.arange(10) + 10 * (step % 4)
            batch = batch[:7] if own.rank == 0 else batch[7:]  # shares of different sizes
            if own.world == 1:
                batch = torch.arange(10) + 10 * (step % 4)
            slate = sampler.draw(batch, epoch=step)
            loss.value(torch.sin(slate.item.float() * (step + 1)), slate)
        state = loss.memory_state()
    for name, values in state.items():
        print(name, values.numpy().tobytes().hex())


if __name__ == "__main__":
    main()
