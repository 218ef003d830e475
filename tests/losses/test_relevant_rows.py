"""The losses over pairs look at the relevant items alone where a slate says that it names them all."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from songrank import Relevance, Slate, SlateSampler
from songrank.functional import lists
from songrank.losses import BPR, ApproxNDCG, GumbelApproxNDCG, LambdaLoss, LambdaRank, RankNet
from tests.slates import sampled_slate

SAMPLES = 3
LOSSES = {
    "ranknet": RankNet,
    "bpr": BPR,
    "lambdaloss": LambdaLoss,
    "lambdaloss-at-3": lambda: LambdaLoss(k=3),
    "lambdarank": LambdaRank,
    "lambdarank-at-3": lambda: LambdaRank(k=3),
    "approx-ndcg": ApproxNDCG,
    "gumbel-approx-ndcg": lambda: GumbelApproxNDCG(samples=SAMPLES),
}
every_loss = pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)

MODES = [
    ({"relevant": 3, "irrelevant": 4}, True),
    ({"relevant": "all", "irrelevant": 5}, True),
    ({"relevant": "all", "irrelevant": "all"}, True),
    ({"relevant": 100, "irrelevant": "all"}, True),
    ({"relevant": 3, "irrelevant": "all"}, False),
    ({"length": 9}, True),
]
every_mode = pytest.mark.parametrize(("options", "complete"), MODES, ids=str)


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors this small gain nothing from threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def catalogue():
    """Some queries with a single relevant item, one with nothing else, and exclusions."""
    generator = torch.Generator().manual_seed(4)
    kind = torch.rand(23, 30, generator=generator)
    relevant = kind < torch.rand(23, 1, generator=generator) * 0.6
    relevant[0], relevant[1] = False, True
    relevant[0, 7] = True
    barred = (kind > 0.85) & ~relevant
    query, item = relevant.nonzero(as_tuple=True)
    label = torch.randint(1, 6, query.shape, generator=generator) / 2
    return Relevance.from_pairs(query, item, label, num_queries=23, num_items=30, exclude=barred.nonzero(as_tuple=True))


def documents():
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 40, (23,), generator=generator)
    labels = torch.randint(0, 4, (int(lengths.sum()),), generator=generator).clamp_min(1) - 1
    return Relevance.from_lists(labels.float(), lengths)


every_task = pytest.mark.parametrize("task", [catalogue, documents])


def slates(task, options):
    """All slates of an epoch, the last one filled up with rows of padding."""
    return list(SlateSampler(task(), 10, seed=2, partial="pad", **options))


def scores_for(slate, seed=0):
    """Scores with ties, float64."""
    return torch.randn(slate.label.shape, generator=torch.Generator().manual_seed(seed)).double().round(decimals=1)


def value_and_gradient(loss, scores, slate):
    scores = scores.clone().requires_grad_()
    value = loss(scores, slate)
    return value.detach(), torch.autograd.grad(value, scores)[0]


@every_task
@every_mode
def test_a_sampler_calls_a_slate_complete_where_its_columns_name_every_relevant_item_once(task, options, complete):
    missed = 0
    for slate in slates(task, options):
        assert slate.complete is complete
        relevant = slate.mask.expand(slate.label.shape) & (slate.label > 0)
        named = torch.zeros(slate.label.shape, dtype=torch.int64).scatter_add_(1, slate.column, slate.active.long())
        assert bool((named <= 1).all())
        assert not bool(named[~relevant].any())
        missed += int((relevant & (named == 0)).sum())
    assert (missed == 0) is complete


@every_loss
@every_task
@every_mode
def test_a_complete_slate_gives_the_value_and_gradient_of_comparing_all_columns(make, task, options, complete):
    for slate in slates(task, options):
        scores = scores_for(slate)
        found = value_and_gradient(make(), scores, slate)
        want = value_and_gradient(make(), scores, replace(slate, complete=False))
        torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-14)


def test_slates_are_complete_only_where_somebody_says_so_and_stay_so():
    assert not Slate.from_batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1]])).complete
    assert not sampled_slate(0).complete
    slate = replace(sampled_slate(0), complete=True)
    assert slate.rows(1, 3).complete
    assert slate.to("meta").complete
    assert replace(slate, k=3).complete


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation gives."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return result


@every_loss
def test_only_relevant_items_are_compared_and_no_more_at_a_time_than_the_limit(make, monkeypatch):
    relevance = catalogue()
    slate = next(iter(SlateSampler(relevance, 16, relevant=2, irrelevant=25)))
    scores = scores_for(slate)
    rows, length = scores.shape
    draws = SAMPLES if isinstance(make(), GumbelApproxNDCG) else 1
    with Largest() as whole:
        value_and_gradient(make(), scores, slate)
    assert whole.elements == draws * rows * 2 * length
    limit = 5 * 2 * length
    monkeypatch.setattr(lists, "_IN_MEMORY", limit)
    with Largest() as parts:
        value_and_gradient(make(), scores, slate)
    assert parts.elements <= max(limit, draws * rows * length)


@every_loss
@pytest.mark.parametrize("limit", [2**26, 60])
def test_a_loss_compiles_to_one_graph_on_complete_slates(make, limit, monkeypatch):
    monkeypatch.setattr(lists, "_IN_MEMORY", limit)
    slate = slates(catalogue, {"relevant": "all", "irrelevant": "all"})[0].rows(0, 4)
    scores = scores_for(slate)
    want = value_and_gradient(make(), scores, slate)
    torch._dynamo.reset()
    compiled = torch.compile(make(), fullgraph=True, backend="eager", dynamic=False)
    torch.testing.assert_close(value_and_gradient(compiled, scores, slate), want, rtol=1e-12, atol=1e-14)
    torch._dynamo.reset()
