"""The kernel that draws gives the slates of the torch sampler, bit for bit."""

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import Relevance, SlateSampler, kernels
from songrank.sampling import SharedBatches, drawing

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
QUERIES, ITEMS = 13, 19
FIELDS = ("query", "item", "label", "mask", "pair", "list_size", "num_relevant", "ideal_dcg", "row_weight")


def table(exclude=False, shard=None):
    """Queries with 0 to 18 of 19 items relevant, so that columns are left over on either side."""
    generator = torch.Generator().manual_seed(4)
    wanted = torch.tensor([0, 1, 2, 3, 18, 17, 9, 5, 1, 12, 4, 0, 6]).unsqueeze(1)
    rank = torch.rand(QUERIES, ITEMS, generator=generator).argsort(1).argsort(1)
    query, item = (rank < wanted).nonzero(as_tuple=True)
    label = torch.randint(1, 5, query.shape, generator=generator).float()
    never = ((rank >= wanted) & (rank >= 14) & (rank % 2 == 0)).nonzero(as_tuple=True) if exclude else None
    made = Relevance.from_pairs(query, item, label, num_queries=QUERIES, num_items=ITEMS, exclude=never)
    return made if shard is None else made.shard(*shard)


CASES = {
    "plain": ({}, {}),
    "excluded items": ({"exclude": True}, {"k": 3, "seed": 2**31 - 1}),
    "a shard of the queries": ({"exclude": True, "shard": (3, 11)}, {"seed": 7}),
    "weights of queries": ({"shard": (2, 13)}, {"query_weight": True, "gain": "linear"}),
    "all relevant items": ({"exclude": True}, {"relevant": "all", "irrelevant": 4}),
    "all irrelevant items fit": ({}, {"relevant": 2, "irrelevant": 30}),
}


def two_samplers(case, **more):
    """The torch sampler on the CPU, and the one that the kernel draws for."""
    of_table, options = CASES[case]
    options = {"relevant": 3, "irrelevant": 7, "partial": "pad", **options, **more}
    here = table(**of_table)
    if options.get("query_weight"):
        first, last = here.query_range
        options["query_weight"] = torch.arange(last - first) * 0.37 + 0.1
    samplers = [SlateSampler(one, 4, **options) for one in (here, here.to(DEVICE))]
    assert not drawing.serves(samplers[0])
    return samplers


def assert_equal(slate, drawn):
    """Equal in all fields; of padded rows only in what a loss sees of them."""
    real = torch.ones_like(slate.query, dtype=torch.bool) if slate.row_weight is None else slate.mask.any(1)
    for name in FIELDS:
        one, other = getattr(slate, name), getattr(drawn, name)
        if one is None:
            assert other is None, name
            continue
        other = other.cpu()
        assert one.dtype == other.dtype, name
        everywhere = name in ("mask", "pair", "row_weight")
        assert torch.equal(one, other) if everywhere else torch.equal(one[real], other[real]), name
    assert (slate.k, slate.gain, slate.complete) == (drawn.k, drawn.gain, drawn.complete)


def rest_of_epoch(sampler, draws):
    """What a recorded step does with a drawing, a batch at a time."""
    draws.begin()
    for _ in range(sampler.batches_left):
        yield draws.next()
        sampler.advance()


@pytest.mark.parametrize("case", CASES)
def test_a_drawing_gives_the_samplers_slates_epoch_after_epoch(case):
    plain, other = two_samplers(case)
    draws, padded = drawing.Drawing(other), 0
    for _ in range(3):
        for slate, drawn in zip(plain, rest_of_epoch(other, draws), strict=True):
            assert_equal(slate, drawn)
            padded += int((~slate.mask.any(1)).sum())
        assert plain.state_dict() == other.state_dict()
    assert other.epoch == 3
    assert padded > 0 or plain.num_queries % 4 == 0


def test_what_is_left_of_an_interrupted_epoch_is_drawn_alike():
    plain, other = two_samplers("excluded items")
    draws = drawing.Drawing(other)
    first = next(rest_of_epoch(other, draws))
    left = iter(plain)
    assert_equal(next(left), first)
    other.load_state_dict(plain.state_dict())
    seen = 0
    for slate, drawn in zip(left, rest_of_epoch(other, drawing.Drawing(other)), strict=True):
        assert_equal(slate, drawn)
        seen += 1
    assert seen == len(plain) - 1
    other.load_state_dict({"seed": other.seed, "epoch": 9, "position": 8})
    plain.load_state_dict(other.state_dict())
    draws.begin()  # one that has drawn another epoch before
    assert_equal(next(iter(plain)), draws.next())


@pytest.mark.parametrize("case", ["excluded items", "weights of queries", "all relevant items"])
def test_any_queries_are_drawn_in_any_order_and_epoch(case):
    plain, other = two_samplers(case, partial="short")
    query = torch.tensor([12, 3, 3, 4, 11, 5])  # one of them twice, one without relevant items
    for epoch in (0, 1000):
        assert_equal(plain.draw(query, epoch), drawing.draw(other, query.to(DEVICE), epoch))


def test_other_epochs_and_seeds_draw_other_items():
    _, other = two_samplers("plain")
    query = torch.tensor([6, 7, 9, 10, 12], device=DEVICE)
    first = drawing.draw(other, query, 0).item
    assert not torch.equal(first, drawing.draw(other, query, 1).item)
    other.load_state_dict({"seed": 1, "epoch": 0, "position": 0})
    assert not torch.equal(first, drawing.draw(other, query, 0).item)


@pytest.mark.parametrize("options", [{"irrelevant": "all"}, {"length": 6}])
def test_it_serves_nothing_that_it_does_not_draw(options, monkeypatch):
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    assert drawing.serves(SlateSampler(table(), 4, 3, 7))
    assert not drawing.serves(SlateSampler(table(), 4, **options))
    lists = Relevance.from_lists(torch.tensor([1.0, 0, 0, 2, 0]), torch.tensor([3, 2]))
    assert not drawing.serves(SlateSampler(lists, 2, 2, 2))


@pytest.mark.parametrize("own", [(0, 13), (3, 11), (0, 5), (11, 12)])  # query 11 has no relevant item
def test_a_drawing_gives_the_padded_slates_of_batches_that_processes_share(own):
    of_table, _ = CASES["excluded items"]
    whole = table(**of_table)
    queries = (whole.num_relevant > 0).nonzero().squeeze(1)
    shared, here = SharedBatches(queries, own), whole.shard(*own)
    samplers = [SlateSampler(one, 4, 3, 7, seed=5, k=3, shared=shared) for one in (here, here.to(DEVICE))]
    plain, other = samplers
    plain.padded = True
    assert plain.rows_here == min(4, max(1, int(((queries >= own[0]) & (queries < own[1])).sum())))
    draws, seen = drawing.Drawing(other), []
    for epoch in range(3):
        assert plain.fits(epoch)
        for slate, drawn in zip(plain, rest_of_epoch(other, draws), strict=True):
            assert_equal(slate, drawn)
            assert slate.query.shape == (plain.rows_here,)
            assert bool(((slate.query >= own[0]) & (slate.query < own[1])).all())
            seen += slate.query[slate.mask.any(1)].tolist()
        assert plain.state_dict() == other.state_dict()
    assert sorted(seen) == sorted(3 * [q for q in queries.tolist() if own[0] <= q < own[1]])
