"""A slate that says it holds whole lists is taken at its word, and gives what its columns would give one by one."""

from dataclasses import replace

import pytest
import torch

from songrank.functional.surrogates import SURROGATES, Surrogate
from songrank.losses.registry import LOSSES
from songrank.sampling import next_items
from songrank.training.config.components import make_component
from tests.sampling.small_sequences import ITEMS, build

TOP_K = ("k-song", "faster-k-song", "sl-at-k")
DRAWN = ("gumbel",)  # what it draws differs from call to call


def made(name, **options):
    sizes = {"num_pairs": 100, "num_queries": 100, "seed": 0, "queries_per_batch": 20, "active_queries": 20}
    more = {"k": 3} if name in TOP_K else {}
    return make_component("loss", {"name": name, **more, **options}, sizes).double().train()


def visits(name, slate, loss, rounds=3):
    """Values and gradients of some visits, and the memory after them."""
    found = []
    for seed in range(rounds):
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(slate.label.shape, generator=generator, dtype=torch.float64).requires_grad_()
        more = {}
        if name.startswith("faster"):
            more["change"] = torch.randn(slate.label.shape, generator=generator, dtype=torch.float64)
        value = loss(scores, slate, **more)
        found += [value.detach(), *torch.autograd.grad(value, scores)]
    return found + list(loss.state_dict().values())


@pytest.mark.parametrize("following", [1, 3])
@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith(DRAWN)])
def test_a_whole_list_is_the_list(name, following):
    slate = build(following=following, k=3 if name in TOP_K else None).draw([0, 2, 3, 4])
    assert slate.whole
    plain = replace(slate, whole=False)
    slate.check()
    plain.check()
    for one, other in zip(visits(name, slate, made(name)), visits(name, plain, made(name)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_with_every_surrogate(surrogate):
    slate = build(following=2).draw([0, 3])
    found = [visits("song", some, made("song", surrogate=surrogate)) for some in (slate, replace(slate, whole=False))]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_total_is_the_sum_of_values(surrogate):
    surrogate = Surrogate(surrogate, margin=1.5)
    x = torch.linspace(-5, 5, 60, dtype=torch.float64).view(3, 4, 5)
    for out in (None, torch.empty_like(x)):
        value, slope = surrogate.value_and_slope_(x.clone())
        total, same = surrogate.total_and_slope_(x.clone(), out)
        torch.testing.assert_close(total, value.sum(-1))
        torch.testing.assert_close(same, slope)


def test_own_weights_go_before():
    slate = build().draw([0, 3])
    weight = torch.rand(slate.label.shape, dtype=torch.float64)
    weight /= weight.sum(-1, keepdim=True)
    found = [visits("song", replace(slate, weight=weight, whole=whole), made("song")) for whole in (True, False)]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def test_a_sample_is_no_whole_list_and_who_says_so_is_told():
    sampler = build(irrelevant=5)
    slate = sampler.draw([0, 3])
    assert not slate.whole
    with pytest.raises(ValueError, match=r"slate.mask has shape .* for whole lists"):
        replace(slate, whole=True)
    fewer = replace(build().draw([0, 3]), list_size=slate.list_size + 1)
    with pytest.raises(ValueError, match="masked or missing columns, but slate.whole is True"):
        fewer.check()


def test_a_mask_of_its_own_for_each_row_is_refused():
    slate = build().draw([0, 3])
    with pytest.raises(ValueError, match=r"slate.mask has shape .* for whole lists"):
        replace(slate, mask=slate.label > 0)


def test_labels_are_those_of_the_targets():
    """A row may have fewer items than the most: what fills it up writes nothing of its own."""
    sampler = build(following=3)
    slate = sampler.draw([0, 2, 3, 4])
    wanted = next_items(sampler.histories, ITEMS, 3)
    for row, entry in enumerate(slate.query.tolist()):
        at = slice(int(wanted.indptr[entry]), int(wanted.indptr[entry + 1]))
        label = torch.zeros(ITEMS)
        label[wanted.item[at].long()] = wanted.label[at]
        torch.testing.assert_close(slate.label[row], label)
