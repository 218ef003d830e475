"""On a GPU: the same slates and numbers as on the CPU, and no transfer to the host in a step."""

import copy
import inspect

import pytest
import torch

from songrank import Relevance, SlateSampler, losses
from songrank.models import SequenceModel

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

WITH_MEMORY = ("SONG", "KSONG", "FasterSONG", "FasterKSONG", "ListwiseCE")
LISTED = tuple(name for name, kind in vars(losses).items() if losses.ListLoss in getattr(kind, "__bases__", ()))


def relevance():
    generator = torch.Generator().manual_seed(8)
    relevant = torch.rand(300, 500, generator=generator) < torch.rand(300, 1, generator=generator) * 0.3
    query, item = relevant.nonzero(as_tuple=True)
    label = torch.randint(1, 5, query.shape, generator=generator).float()
    return Relevance.from_pairs(query, item, label, num_queries=300, num_items=500)


def lists():
    generator = torch.Generator().manual_seed(9)
    lengths = torch.randint(1, 150, (200,), generator=generator)
    return Relevance.from_lists(torch.randint(0, 3, (int(lengths.sum()),), generator=generator).float(), lengths)


@pytest.mark.parametrize("options", [{}, {"irrelevant": "all"}, {"length": 40}, {"relevant": "all", "irrelevant": 7}])
@pytest.mark.parametrize("make", [relevance, lists])
def test_slates_are_equal_on_cpu_and_gpu(make, options):
    table = make()
    here, there = (
        SlateSampler(table, 64, seed=3, k=10, **options),
        SlateSampler(table.to("cuda"), 64, seed=3, k=10, **options),
    )
    for one, other in zip(here, there, strict=True):
        assert other.item.is_cuda
        for name in ("query", "item", "label", "mask", "pair", "column", "list_size", "num_relevant", "ideal_dcg"):
            assert torch.equal(getattr(one, name), getattr(other, name).cpu()), name


def build(name, table):
    sizes = {"num_pairs": table.num_pairs, "num_queries": table.num_queries, "k": 10, "queries_per_batch": 64}
    kind = getattr(losses, name)
    needed = {key: value for key, value in sizes.items() if key in inspect.signature(kind).parameters}
    loss = kind(**needed) if name in WITH_MEMORY else kind()
    return loss, loss.k if name in WITH_MEMORY else None


@pytest.mark.parametrize("name", [*WITH_MEMORY, *LISTED])
def test_a_step_makes_no_transfer_and_gives_the_cpus_numbers(name):
    table = relevance()
    here, k = build(name, table)
    there = build(name, table)[0].to("cuda")
    local, remote = SlateSampler(table, 64, seed=3, k=k), SlateSampler(table.to("cuda"), 64, seed=3, k=k)
    remote.order(0)
    scores = torch.randn(300, 500, generator=torch.Generator().manual_seed(1))
    on_gpu = scores.cuda()
    for one, other in zip(local, iter(remote), strict=True):
        leaf = scores[one.query].gather(1, one.item).requires_grad_()
        twin = on_gpu[other.query].gather(1, other.item).requires_grad_()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            slate = remote.draw(other.query, 0)
            there(twin, slate).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        here(leaf, one).backward()
        torch.testing.assert_close(
            twin.grad.cpu(), leaf.grad, rtol=2e-4, atol=1e-6
        )  # soft sorts add up hundreds of terms
    for (key, value), other in zip(here.state_dict().items(), there.state_dict().values(), strict=True):
        torch.testing.assert_close(other.cpu(), value, rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.parametrize(
    "options", [{}, {"positions": "end"}, {"relative": True}, {"time_bias": True}, {"gates": True, "relative": True}]
)
def test_a_pass_of_a_sequence_model_makes_no_transfer_and_gives_the_cpus_numbers(options):
    torch.manual_seed(0)
    model = SequenceModel(50, dim=16, length=9, dropout=0.0, embedding_norm=bool(options), **options)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    count = torch.tensor([[9], [4], [0], [7]])
    items = torch.where(torch.arange(9) < count, torch.randint(50, (4, 9)), -1)
    query = (items, torch.randint(10**6, (4, 9)).cumsum(1)) if model.reads_times else items
    states, weights = [], []
    for device in ("cpu", "cuda"):
        own, given = copy.deepcopy(model).to(device), tuple(part.to(device) for part in query)
        given = given if model.reads_times else torch.stack(given)
        torch.cuda.set_sync_debug_mode("error")
        try:
            found = own.states(given)
            found.square().mean().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        states.append(found.detach().cpu())
        weights.append({name: weight.grad.cpu() for name, weight in own.named_parameters()})
    read = torch.arange(10) <= count
    torch.testing.assert_close(states[1][read], states[0][read], rtol=1e-4, atol=1e-4)
    for name, gradient in weights[0].items():
        torch.testing.assert_close(weights[1][name], gradient, rtol=1e-3, atol=1e-4, msg=name)
