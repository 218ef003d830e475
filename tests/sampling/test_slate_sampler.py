"""What the sampler promises: truly irrelevant, distinct, uniform, and the same whatever happens around it."""

import pytest
import torch

from songrank import Relevance, SlateSampler
from tests.sampling.small_relevance import random_relevance


def random_lists(seed=0, queries=25, longest=60):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest, (queries,), generator=generator)
    labels = torch.randint(0, 4, (int(lengths.sum()),), generator=generator).clamp_min(1) - 1
    return Relevance.from_lists(labels.float(), lengths), labels.float(), lengths


def assert_sound(slate, relevance, relevant, barred, labels=None):
    """Everything a slate of a catalogue says is true of its query."""
    slate.check()
    for b, q in enumerate(slate.query.tolist()):
        present = slate.mask.expand(slate.label.shape)[b]
        items = slate.item.expand(slate.label.shape)[b][present]
        assert items.unique().numel() == items.numel()
        assert torch.equal(relevant[q, items], slate.label[b][present] > 0)
        assert not bool(barred[q, items].any())
        assert int(slate.list_size[b]) == int((~barred[q]).sum())
        assert int(slate.num_relevant[b]) == int(relevant[q].sum())
        for row, column in zip(slate.pair[b].tolist(), slate.column[b].tolist(), strict=True):
            if row >= 0:
                item = slate.item.expand(slate.label.shape)[b, column]
                assert row == int(relevance.pair_index([q], item.unsqueeze(0))[0])
                assert float(slate.label[b, column]) == float(relevance.label[row])


def same_rows(one, other):
    """Two slates agree on every query that both hold."""
    places = {q: b for b, q in enumerate(other.query.tolist())}
    for b, q in enumerate(one.query.tolist()):
        if q in places:
            for name in ("item", "label", "mask", "pair", "list_size", "num_relevant", "ideal_dcg"):
                assert torch.equal(getattr(one, name)[b], getattr(other, name)[places[q]]), name


@pytest.mark.parametrize("excluded", [True, False])
@pytest.mark.parametrize(
    ("relevant", "irrelevant"), [(3, 4), (10, 100), (2, 1), ("all", 5), (4, "all"), ("all", "all")]
)
def test_slates_tell_the_truth_about_their_queries(relevant, irrelevant, excluded):
    relevance, is_relevant, barred = random_relevance(excluded=excluded)
    sampler = SlateSampler(relevance, 7, relevant, irrelevant, k=5)
    seen = []
    for slate in sampler:
        assert_sound(slate, relevance, is_relevant, barred)
        torch.testing.assert_close(slate.ideal_dcg, relevance.ideal_dcg(5)[slate.query])
        total, size = slate.num_relevant, slate.list_size
        wanted = total if relevant == "all" else total.clamp(max=relevant)
        assert torch.equal((slate.pair >= 0).sum(-1), wanted)
        if irrelevant == "all":
            assert torch.equal(slate.mask.sum(-1), size)
        else:
            assert torch.equal(slate.mask.sum(-1), wanted + (size - total).clamp(max=irrelevant))
        seen += slate.query.tolist()
    assert sorted(seen) == is_relevant.any(-1).nonzero().squeeze(-1).tolist()


def test_what_is_drawn_depends_on_seed_epoch_and_query_alone():
    relevance, _, _ = random_relevance()
    sampler = SlateSampler(relevance, 8, 3, 5, seed=4)
    batches = list(sampler)
    whole = sampler.draw(torch.arange(39, 0, -1), epoch=0)
    for slate in batches:
        same_rows(slate, whole)
    other_seed = SlateSampler(relevance, 8, 3, 5, seed=5).draw(torch.arange(1, 40), epoch=0)
    other_epoch = sampler.draw(torch.arange(1, 40), epoch=1)
    flipped = whole.item.flip(0)
    for other in (other_seed, other_epoch):
        assert not torch.equal(other.item, flipped)


def test_shards_draw_what_the_whole_draws():
    relevance, _, _ = random_relevance()
    whole = SlateSampler(relevance, 8, 3, 5).draw(torch.arange(1, 40), epoch=2)
    visited = []
    for first, last in ((0, 17), (17, 40)):
        sampler = SlateSampler(relevance.shard(first, last), 6, 3, 5)
        sampler.epoch = 2
        for slate in sampler:
            same_rows(slate, whole)
            visited += slate.query.tolist()
    assert sorted(visited) == sorted(SlateSampler(relevance, 8).order(0).tolist())


def test_an_interrupted_epoch_goes_on_where_it_stopped():
    relevance, _, _ = random_relevance()
    straight = SlateSampler(relevance, 7, 3, 5, seed=9)
    expected = [slate for _ in range(3) for slate in straight]
    interrupted = SlateSampler(relevance, 7, 3, 5, seed=9)
    got = []
    while len(got) < len(expected):
        for slate in interrupted:
            got.append(slate)
            state = interrupted.state_dict()
            interrupted = SlateSampler(relevance, 7, 3, 5, seed=0)
            interrupted.load_state_dict(state)
            break
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one.query, other.query)
        assert torch.equal(one.item, other.item)
    assert interrupted.state_dict() == {"seed": 9, "epoch": 3, "position": 0}


@pytest.mark.parametrize("partial", ["short", "pad", "drop"])
def test_the_last_batch_is_short_padded_or_dropped(partial):
    relevance, is_relevant, _ = random_relevance()
    sampler = SlateSampler(relevance, 16, 3, 5, partial=partial)
    slates = list(sampler)
    drawn = int(is_relevant.any(-1).sum())
    assert len(slates) == len(sampler)
    if partial == "drop":
        assert len(slates) == drawn // 16
    else:
        assert slates[-1].query.shape[0] == (16 if partial == "pad" else drawn % 16)
    if partial == "pad":
        last = slates[-1]
        last.check()
        assert last.row_weight.tolist() == [1.0] * (drawn % 16) + [0.0] * (16 - drawn % 16)
        assert not bool(last.mask[drawn % 16 :].any())
        assert bool((last.pair[drawn % 16 :] == -1).all())


@pytest.mark.parametrize(
    "options", [{"relevant": "all", "irrelevant": "all"}, {"length": 12}, {"relevant": 4, "irrelevant": 6}]
)
def test_list_tasks_give_whole_lists_or_lists_cut_short(options):
    relevance, labels, lengths = random_lists()
    start = lengths.cumsum(0) - lengths
    for slate in SlateSampler(relevance, 6, **options):
        slate.check()
        for b, q in enumerate(slate.query.tolist()):
            items = slate.item[b][slate.mask[b]]
            assert items.unique().numel() == items.numel()
            assert int(items.min()) >= int(start[q])
            assert int(items.max()) < int(start[q] + lengths[q])
            assert torch.equal(labels[items], slate.label[b][slate.mask[b]])
            assert int(slate.list_size[b]) == int(lengths[q])
            size, total = int(lengths[q]), int(slate.num_relevant[b])
            kept = int((slate.pair[b] >= 0).sum())
            if "length" in options:
                assert slate.item.shape[1] == 12
                assert items.numel() == min(size, 12)
                assert kept == int((slate.label[b] > 0).sum())
                assert kept >= min(total, 2)
                assert items.numel() - kept >= min(size - total, 1)
            elif options["irrelevant"] == "all":
                assert items.numel() == size
                assert kept == total


def test_a_cut_list_keeps_the_proportion_of_relevant_items():
    relevance = Relevance.from_lists(torch.cat([torch.ones(400), torch.zeros(600)]), torch.tensor([1000]))
    slate = SlateSampler(relevance, length=100).draw(torch.tensor([0]))
    assert int((slate.label > 0).sum()) == 40


def test_a_catalogue_larger_than_32_bits_of_pairs_needs_no_dense_table():
    relevance = Relevance.from_pairs([0, 2_000_000], [5, 1_999_999_999], num_queries=2_000_001, num_items=2_000_000_000)
    slate = SlateSampler(relevance, relevant=2, irrelevant=3).draw(torch.tensor([2_000_000, 0]))
    slate.check()
    assert int(slate.item.max()) < 2_000_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries_per_batch": 0}, "queries_per_batch is 0; expected a whole number of at least 1"),
        ({"relevant": 0}, "relevant is 0"),
        ({"irrelevant": "some"}, "irrelevant is 'some'"),
        ({"k": 0}, "k is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"partial": "half"}, "partial is 'half'; expected one of 'short', 'pad', 'drop'"),
        ({"gain": "cubic"}, "gain is 'cubic'; expected one of 'exp2', 'linear'"),
    ],
)
def test_bad_arguments_are_named(options, message):
    relevance, _, _ = random_relevance()
    with pytest.raises((ValueError, TypeError), match=message):
        SlateSampler(relevance, **options)


def test_dropping_every_batch_is_refused():
    relevance, _, _ = random_relevance()
    with pytest.raises(ValueError, match="queries_per_batch is 100; expected at most 37, the number of queries"):
        SlateSampler(relevance, queries_per_batch=100, partial="drop")


def test_a_state_at_the_end_of_an_epoch_goes_on_with_the_next():
    relevance, _, _ = random_relevance()
    sampler = SlateSampler(relevance, 16, partial="drop")
    sampler.load_state_dict({"seed": 0, "epoch": 0, "position": 32})  # of a sampler that keeps its short batches
    assert [len(list(sampler)) for _ in range(2)] == [2, 2]
    assert sampler.epoch == 3


def test_an_iterator_ends_when_another_one_begins():
    relevance, _, _ = random_relevance()
    sampler = SlateSampler(relevance, 16)
    stale = iter(sampler)
    next(stale)
    list(sampler)
    with pytest.raises(RuntimeError, match="another iteration was started"):
        next(stale)
    assert sampler.state_dict()["position"] == 0


def test_a_state_of_another_sampler_is_refused():
    relevance, _, _ = random_relevance()
    sampler = SlateSampler(relevance)
    with pytest.raises(ValueError, match="position"):
        sampler.load_state_dict({"seed": 0, "epoch": 0, "position": 10_000})
    with pytest.raises(ValueError, match="keys 'seed', 'epoch' and 'position'"):
        sampler.load_state_dict({"epoch": 1})


def test_a_relevance_without_relevant_items_cannot_be_sampled():
    with pytest.raises(ValueError, match="at least one query with a relevant item"):
        SlateSampler(Relevance.from_pairs([0], [0], [0.0], num_items=3))


def test_a_query_that_is_not_held_here_is_refused():
    relevance, _, _ = random_relevance()
    sampler = SlateSampler(relevance.shard(10, 20))
    for query in (9, 20):
        with pytest.raises(ValueError, match="queries from 10 to 19, those held here"):
            sampler.draw(torch.tensor([15, query]))


def test_the_repr_gives_the_arguments():
    relevance = Relevance.from_pairs([0, 0], [1, 2], num_queries=1, num_items=9)
    assert repr(SlateSampler(relevance, 8, 4, "all", seed=3, k=5)) == (
        f"SlateSampler({relevance!r}, queries_per_batch=8, relevant=4, irrelevant='all', seed=3, k=5)"
    )
    assert "length=6, seed=0)" in repr(SlateSampler(relevance, length=6))
