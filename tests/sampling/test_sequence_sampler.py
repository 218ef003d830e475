"""Slates of what comes next: which entries, which items, and that a shared sample tells the truth in the mean."""

import math

import pytest
import torch

from songrank import SONG
from songrank.core.csr import CSR
from songrank.sampling import SequenceSampler, last_windows, next_items
from songrank.sampling.next_items import target_windows, window_ends
from tests.sampling.small_sequences import ITEMS, ROWS, build, entries, windows


@pytest.mark.parametrize("length", [1, 2, 4, 7, 8, 20])
def test_rows_and_windows_are_those_of_plain_loops(length):
    sampler = build(length)
    users = [3, 0, 4, 2]
    slate = sampler.draw(users)
    wanted = entries(users, length)
    assert slate.query.tolist() == slate.pair.squeeze(1).tolist() == [number for number, _, _ in wanted]
    assert slate.column.squeeze(1).tolist() == [item for _, item, _ in wanted]
    assert torch.equal(slate.label, torch.nn.functional.one_hot(slate.column.squeeze(1), ITEMS).float())
    begin, history = last_windows(sampler.histories, torch.tensor(users), length)
    at = {user: place for place, user in enumerate(users)}
    owner = [user for user in users for _ in entries([user], length)]
    for (number, _, window), user in zip(wanted, owner, strict=True):
        count = number - int(begin[at[user]])
        assert history[at[user], :count].tolist() == window
    slate.check()


def test_random_windows_are_as_long_anywhere_and_each_place_is_as_likely():
    sampler, epochs = build(3, windows="random", seed=7), 2000
    users = [0, 2, 3]
    begins = {user: [] for user in users}
    for epoch in range(epochs):
        slate = sampler.draw(users, epoch=epoch)
        assert torch.equal(slate.query, sampler.draw(users, epoch=epoch).query)
        held = slate.query.tolist()
        for user in users:
            first = sum(map(len, ROWS[:user]))
            own = [entry - first for entry in held if first <= entry < first + len(ROWS[user])]
            assert own == list(range(own[0], own[0] + min(3, len(ROWS[user]))))
            begins[user].append(own[0])
        assert slate.column.squeeze(1).tolist() == [sampler.histories["item"][entry] for entry in held]
    for user, places in ((0, 3), (2, 1), (3, 6)):
        for place in range(places):
            chance = 1 / places
            seen = begins[user].count(place) / epochs
            assert abs(seen - chance) <= 4 * math.sqrt(chance * (1 - chance) / epochs)


@pytest.mark.parametrize("kind", ["sliding", "prefix"])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 20])
def test_successive_windows_are_those_of_plain_loops(kind, length):
    """Rows, places and what is read: at most ``length`` items before the last row, whatever the order of windows."""
    sampler = build(length, windows=kind, queries_per_batch=3)
    wanted = windows(1 if kind == "prefix" else length)
    assert sampler.num_queries == len(wanted)
    order = torch.randperm(len(wanted), generator=torch.Generator().manual_seed(0)).tolist()
    slate = sampler.draw(order)
    slate.check()
    read = sampler.histories.span(slate.begin, slate.count, slate.width)
    rows = iter(zip(slate.query.tolist(), slate.row.tolist(), slate.place.tolist(), strict=True))
    for at, number in enumerate(order):
        user, first, last = wanted[number]
        start, before = max(0, last - length), sum(map(len, ROWS[:user]))
        assert [item for item in read[at].tolist() if item >= 0] == ROWS[user][start:last]
        for place in range(first, last + 1):
            assert next(rows) == (before + place, at, place - start)
    assert next(rows, None) is None


@pytest.mark.parametrize("kind", ["sliding", "prefix"])
def test_with_successive_windows_every_entry_is_a_row_once_an_epoch(kind):
    sampler = build(3, windows=kind, queries_per_batch=2, irrelevant=5)
    epochs = [[slate.query.tolist() for slate in sampler] for _ in range(3)]
    for batches in epochs:
        assert sorted(entry for batch in batches for entry in batch) == list(range(16))
        assert len(batches) == len(sampler)
    assert epochs[0] != epochs[1]
    assert max(map(len, epochs[0])) == (2 if kind == "prefix" else 6)


@pytest.mark.parametrize("kind", ["sliding", "prefix"])
def test_parts_of_successive_windows_hold_each_row_once(kind):
    sampler = build(4, windows=kind, irrelevant=5, queries_per_batch=6)
    query = torch.arange(6)
    whole, parts = sampler.draw(query), list(sampler.parts(query, 8))
    assert len(parts) > 1
    assert sorted(torch.cat([part.query for part in parts]).tolist()) == sorted(whole.query.tolist())
    assert max(len(part.begin) * (part.width + 1) for part in parts) <= 8 + 4
    for part in parts:
        assert torch.equal(part.item[0, 1:], whole.item[0, 1:])


def test_a_window_without_relevant_entries_is_not_visited():
    label = torch.ones(16)
    label[[0, 1, 2, 7]] = 0.0
    sliding, prefix = (build(2, windows=kind, label=label) for kind in ("sliding", "prefix"))
    assert (sliding.num_queries, prefix.num_queries) == (len(windows(2)) - 2, 12)  # [3], [1, 4] of user 0
    rows = torch.cat([slate.query for slate in sliding])
    assert sorted(rows.tolist()) == [entry for entry in range(16) if label[entry]]


def test_the_window_of_an_entry_is_the_one_that_holds_it():
    offsets = torch.tensor([0, *torch.tensor([len(row) for row in ROWS]).cumsum(0).tolist()])
    for stride in (1, 2, 3, 5, 100):
        user, first, size = target_windows(offsets, stride)
        holds = torch.repeat_interleave(torch.arange(len(user)), size)
        assert torch.equal(window_ends(offsets, torch.arange(16), stride), (first + size)[holds])
        assert user.tolist() == [user for user, _, _ in windows(stride)]


def test_windows_of_users_weigh_as_their_users():
    sampler = build(2, windows="sliding", query_weight=torch.tensor([1.0, 1.0, 2.0, 3.0, 4.0]))
    slate = sampler.draw(torch.arange(sampler.num_queries))
    owner = [user for user, row in enumerate(ROWS) for _ in row]
    weight = {0: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert slate.row_weight.tolist() == [weight[owner[entry]] for entry in slate.query.tolist()]


def test_a_shard_draws_what_the_whole_draws():
    whole = build(2, windows="random", irrelevant=4, seed=3)
    part = whole.relevance.shard(2, 5)
    first, last = part.query_range
    begin = whole.histories.offsets[first]
    entry = slice(int(begin), int(whole.histories.offsets[last]))
    own = CSR(
        whole.histories.offsets[first : last + 1] - begin,
        {name: column[entry] for name, column in whole.histories.columns.items()},
    )
    sharded = SequenceSampler(part, own, 2, windows="random", irrelevant=4, seed=3)
    for epoch in range(20):
        one, other = whole.draw(range(first, last), epoch=epoch), sharded.draw(range(first, last), epoch=epoch)
        assert torch.equal(one.query - begin, other.query)
        assert torch.equal(one.item, other.item)


def test_parts_hold_each_user_once_in_as_many_rows_as_told():
    sampler = build(4, irrelevant=5, windows="random")
    users = torch.tensor([2, 0, 4, 3])
    whole = sampler.draw(users)
    for size, wanted in ((4, [4, 4, 3]), (8, [8, 3]), (3, [4, 4, 2, 1]), (100, [11])):
        parts = list(sampler.parts(users, size))
        assert [len(part.query) for part in parts] == wanted
        assert sorted(torch.cat([part.query for part in parts]).tolist()) == sorted(whole.query.tolist())
        for part in parts:
            assert torch.equal(part.item[0, 1:], whole.item[0, 1:])  # what the batch shares


def test_every_user_with_a_history_comes_once_an_epoch_and_a_state_goes_on():
    sampler = build(queries_per_batch=2, irrelevant=5)
    first = [slate.query.tolist() for slate in sampler]
    assert sorted(number for batch in first for number in batch) == sorted(n for n, _, _ in entries(range(5), 4))
    again = build(queries_per_batch=2, irrelevant=5)
    passing = iter(again)
    next(passing)
    state = again.state_dict()
    rest = build(queries_per_batch=2, irrelevant=5)
    rest.load_state_dict(state)
    for one, other in zip(passing, rest, strict=True):
        assert torch.equal(one.query, other.query)
        assert torch.equal(one.item, other.item)


def test_a_shared_sample_leaves_out_the_rows_own_item():
    slate = build(irrelevant=7).draw([0, 3])
    slate.check()
    shared = slate.item[:, 1:]
    assert len(shared[0].unique()) == 7
    assert torch.equal(shared, shared[:1].expand_as(shared))
    assert torch.equal(slate.mask[:, 1:], shared != slate.item[:, :1])
    assert slate.mask[:, 0].all()
    assert slate.item[:, 0].tolist() == [item for _, item, _ in entries([0, 3], 4)]
    drawn = torch.stack([build(irrelevant=3).draw([0], epoch).item[0, 1:] for epoch in range(4000)])
    assert torch.bincount(drawn.flatten()).float().div(4000).allclose(torch.tensor(3 / ITEMS), atol=0.04)


@pytest.mark.parametrize("irrelevant", [ITEMS, 50])
def test_as_many_as_there_are_items_are_all_of_them(irrelevant):
    sampler = build(irrelevant=irrelevant)
    slate = sampler.draw([0, 3])
    assert slate.whole
    assert (sampler.columns, slate.item.tolist()) == (ITEMS, [list(range(ITEMS))])


@pytest.mark.parametrize("irrelevant", [1, 2, 4, 6, ITEMS - 1])
def test_ranks_from_shared_samples_are_those_of_the_catalogue_in_the_mean(irrelevant):
    """ĝ over epochs averages to the exact g: the sample is unbiased although rows share it, however small."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(40, ITEMS, generator=generator, dtype=torch.float64)  # of entry, item
    users = [0, 3, 4]
    whole = build().draw(users)
    own = scores[whole.query].gather(1, whole.column)
    exact = (scores[whole.query] - own + 1.0).clamp_min(0.0).square().mean(1)
    sampler, loss, found = build(irrelevant=irrelevant), SONG(16, gamma=1.0, dtype=torch.float64), []
    for epoch in range(1200):
        slate = sampler.draw(users, epoch)
        slate.check()
        loss(scores[slate.query].gather(1, slate.item), slate)  # with γ = 1, u is this slate's estimate
        found.append(loss.u.read(slate.query))
    found = torch.stack(found)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - exact).abs() < 5 * error).all()
    assert (found.std(0) > 0).any()


def test_what_is_not_relevant_is_no_row_but_is_read():
    labels = torch.ones(16)
    labels[1] = 0.0
    sampler = build(label=labels)
    assert 1 not in sampler.draw([0]).query.tolist()
    assert last_windows(sampler.histories, torch.tensor([0]), 4)[1].tolist() == [[3, 1, 4, 1]]


def test_weights_of_users_are_those_of_their_rows():
    sampler = build(query_weight=torch.tensor([1.0, 1.0, 2.0, 3.0, 1.0]))
    slate = sampler.draw([2, 3])
    assert slate.row_weight.tolist() == [2.0, 3.0, 3.0, 3.0, 3.0]


def test_losses_remember_one_row_an_entry():
    loss = SONG(16, gamma=0.5)
    slate = build().draw([0, 4])
    loss(torch.randn(slate.label.shape), slate)
    assert (loss.u.read(torch.arange(16)) > 0).nonzero().squeeze(1).tolist() == slate.query.tolist()


def test_what_does_not_fit_is_refused():
    sampler = build()
    short = CSR.from_lengths([1], item=[1], label=[1.0])
    with pytest.raises(ValueError, match="histories is 'of 1 users'"):
        SequenceSampler(sampler.relevance, short, 4)
    with pytest.raises(ValueError, match="expected 16 entries and 12 items"):
        build(targets=next_items(short, ITEMS))
    with pytest.raises(ValueError, match="neither partial nor length"):
        build(partial="pad")
