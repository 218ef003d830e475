"""The sampler as a data module of Lightning, saved and resumed with the model and the memory of its loss.

A loss is a ``torch.nn.Module``: as an attribute of a ``LightningModule`` it is moved and saved with the model.
Lightning restores the state of a data loader only within an epoch, so the sampler needs its own place in the
checkpoint.
"""

from typing import Any

import lightning

from songrank.core.checks import fail
from songrank.sampling import SlateSampler

__all__ = ["SlateDataModule"]


class SlateDataModule(lightning.LightningDataModule):
    """The slates of a sampler as the training data of ``Trainer.fit(model, datamodule=…)``.

    The state of the sampler is part of each checkpoint, so a resumed run draws the same slates as an uninterrupted one,
    from the middle of an epoch as well.

    Args:
        sampler: draws the slates of ``training_step(slate, batch_index)``.

    >>> from songrank import Relevance
    >>> sampler = SlateSampler(Relevance.from_lists(labels=[1, 0, 2, 0, 0], lengths=[2, 3]), length=3)
    >>> SlateDataModule(sampler).state_dict()
    {'sampler': {'seed': 0, 'epoch': 0, 'position': 0}}
    """

    def __init__(self, sampler: SlateSampler) -> None:
        super().__init__()
        if not isinstance(sampler, SlateSampler):
            fail("sampler", type(sampler).__name__, "a songrank.SlateSampler", TypeError)
        self.sampler = sampler

    def train_dataloader(self) -> SlateSampler:
        """The sampler itself: one batch per slate."""
        return self.sampler

    def state_dict(self) -> dict[str, Any]:
        """The position of the sampler."""
        return {"sampler": self.sampler.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved position."""
        self.sampler.load_state_dict(state_dict["sampler"])
