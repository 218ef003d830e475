"""The sampler of a Lightning run resumes with its checkpoint."""

import pytest

pytest.importorskip("lightning")

from songrank import SlateSampler
from songrank.integrations.lightning import SlateDataModule

from .small_lists import relevance


def test_the_state_is_that_of_the_sampler():
    one, other = (SlateDataModule(SlateSampler(relevance(), queries_per_batch=1, length=3)) for _ in range(2))
    slates = iter(one.train_dataloader())
    for _ in range(3):
        next(slates)
    other.load_state_dict(one.state_dict())
    assert [slate.item.tolist() for slate in other.train_dataloader()] == [slate.item.tolist() for slate in slates]


def test_another_loader_is_rejected():
    with pytest.raises(TypeError, match="sampler is 'list'; expected a songrank.SlateSampler"):
        SlateDataModule([1, 2])
