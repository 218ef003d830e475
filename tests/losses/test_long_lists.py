"""Lists of 100,000 items: every loss takes memory for the list, not for its square."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from songrank import Slate
from songrank.core.errors import UserError
from songrank.functional import lists, rank_terms
from songrank.losses import PSL, SONG
from songrank.losses.registry import LOSSES

LONG, RELEVANT = 100_000, 400
MOST = 2**26  # bytes of one tensor
SQUARED = [name for name, kind in LOSSES.items() if kind.traits.cost == "O(L²)"]
COMPARED = [name for name in LOSSES if name not in SQUARED]


class Largest(TorchDispatchMode):
    """The number of bytes of the largest tensor that is allocated."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return found


def slate_of(size, relevant, rows=1, k=None, gain="exp2"):
    """Whole lists of which the first items are relevant."""
    labels = torch.zeros(rows, size)
    labels[:, :relevant] = 1.0 + torch.arange(relevant) % 3
    pair = torch.arange(rows * relevant).view(rows, relevant)
    slate = Slate.from_batch(labels, torch.arange(rows), pair, k=k, gain=gain)
    object.__setattr__(slate, "complete", True)  # as those of a sampler are
    return slate


def build(name, slate):
    rows, relevant = slate.column.shape
    kind, sizes = LOSSES[name], {"num_pairs": rows * relevant, "num_queries": rows, "queries_per_batch": rows}
    options = {} if slate.k is None else {"k": slate.k}
    return kind.build(options, {**sizes, "active_queries": rows, "seed": 0})


def cutoff(name):
    return 5 if name in ("k-song", "faster-k-song", "sl-at-k") else None


def step(loss, scores, slate):
    scores = scores.clone().requires_grad_()
    value = loss(scores, slate)
    value.backward()
    return value.detach(), scores.grad


@pytest.mark.parametrize("name", COMPARED)
def test_a_long_list_takes_memory_for_the_list(name):
    slate = slate_of(LONG, RELEVANT, k=cutoff(name))
    scores = torch.randn(1, LONG, generator=torch.Generator().manual_seed(0))
    with Largest() as largest:
        value, gradient = step(build(name, slate), scores, slate)
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert 4 * LONG <= largest.bytes <= MOST


@pytest.mark.parametrize("name", SQUARED)
def test_a_loss_with_a_matrix_of_all_pairs_names_the_remedy(name):
    slate = slate_of(LONG, 3)
    with pytest.raises(UserError, match=r"a soft sort of 100,000 items takes 40 GB; expected .* \(batch\.length"):
        step(build(name, slate), torch.zeros(1, LONG), slate)


@pytest.mark.parametrize("name", COMPARED)
def test_parts_of_a_list_give_what_the_whole_list_gives(name, monkeypatch):
    slate = slate_of(50, 10, rows=3, k=cutoff(name))
    scores = torch.randn(2, 3, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def two_steps():
        loss = build(name, slate)
        return [step(loss, part, slate) for part in scores]

    whole = two_steps()
    for module in (lists, rank_terms):
        for limit in ("_OF_ONE_LIST", "_OF_A_PART"):
            monkeypatch.setattr(module, limit, 150)  # 3 items
    for found, expected in zip(two_steps(), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SONG(27, gamma=0.5, surrogate="logistic"),
        lambda: SONG(27, gamma=0.5, surrogate="smooth_hinge", margin=1.5),
        lambda: PSL(27, 0.5, temperature=0.5),
    ],
)
def test_parts_for_other_surrogates_and_sampled_lists(make, monkeypatch):
    slate = slate_of(50, 9, rows=3)
    for name in ("list_size", "num_relevant"):
        object.__setattr__(slate, name, getattr(slate, name) * 2)
    scores = torch.randn(3, 50, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    whole = step(make(), scores, slate)
    for limit in ("_OF_ONE_LIST", "_OF_A_PART"):
        monkeypatch.setattr(rank_terms, limit, 150)
    torch.testing.assert_close(step(make(), scores, slate), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["song", "k-song", "faster-song", "faster-k-song"])
@pytest.mark.parametrize("scale", [1e20, 1e30, 3e38])
def test_huge_scores_have_a_finite_loss_and_gradient(name, scale):
    slate = slate_of(2000, 5, rows=2, k=cutoff(name))
    scores = scale * torch.sign(torch.randn(2, 2000, generator=torch.Generator().manual_seed(0)))
    value, gradient = step(build(name, slate), scores, slate)
    assert value.isfinite()
    assert gradient.isfinite().all()
