"""Rows of next items."""

import math

import pytest
import torch

from songrank import SONG
from tests.sampling.small_sequences import ITEMS, ROWS, build, entries


@pytest.mark.parametrize("gain", ["exp2", "linear"])
@pytest.mark.parametrize("irrelevant", ["all", 5])
@pytest.mark.parametrize("following", [2, 3, 20])
def test_the_next_items_are_relevant_with_a_share_of_their_gain(following, irrelevant, gain):
    """By plain loops: item 1 comes twice after the first entry of user 0, and its larger gain counts."""
    labels = torch.rand(16, generator=torch.Generator().manual_seed(0)) * 3
    labels[2] = 0.0
    sampler = build(3, label=labels, following=following, irrelevant=irrelevant, gain=gain)
    users = [3, 0, 4, 2]
    slate = sampler.draw(users)
    slate.check()
    gained = (lambda y: 2**y - 1) if gain == "exp2" else (lambda y: y)
    met = set()
    row = 0
    for number, _, _ in entries(users, 3):
        user = next(u for u in users if sum(map(len, ROWS[:u])) <= number < sum(map(len, ROWS[: u + 1])))
        wanted = {}
        for place in range(following):
            if number + place < sum(map(len, ROWS[: user + 1])) and labels[number + place] > 0:
                item = ROWS[user][number + place - sum(map(len, ROWS[:user]))]
                wanted[item] = max(wanted.get(item, 0.0), gained(float(labels[number + place])) / (place + 1))
        if not wanted:
            assert number not in slate.query
            continue
        assert int(slate.query[row]) == number
        items = slate.item.expand(slate.label.shape)[row]
        there = slate.mask.expand(slate.label.shape)[row] & (slate.label[row] > 0)
        found = dict(zip(items[there].tolist(), gained(slate.label[row][there]).tolist(), strict=True))
        assert found == pytest.approx(wanted, rel=1e-5)
        assert int(slate.num_relevant[row]) == len(wanted)
        best = sorted(wanted.values(), reverse=True)
        ideal = sum(value / math.log2(2 + at) for at, value in enumerate(best))
        assert float(slate.ideal_dcg[row]) == pytest.approx(ideal, rel=1e-5)
        pairs = slate.pair[row][slate.pair[row] >= 0].tolist()
        assert len(pairs) == len(wanted)
        assert not met & set(pairs)
        met |= set(pairs)
        row += 1
    assert row == slate.query.shape[0]
    assert max(met) < sampler.targets.num_pairs


def test_ranks_of_several_next_items_from_shared_samples_are_unbiased():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(40, ITEMS, generator=generator, dtype=torch.float64)
    whole = build(following=3).draw([0, 3, 4])
    own = scores[whole.query].gather(1, whole.column)
    exact = (scores[whole.query].unsqueeze(1) - own.unsqueeze(2) + 1.0).clamp_min(0.0).square().mean(2)[whole.active]
    sampler, found = build(following=3, irrelevant=6), []
    loss = SONG(sampler.targets.num_pairs, gamma=1.0, dtype=torch.float64)
    for epoch in range(2000):
        slate = sampler.draw([0, 3, 4], epoch)
        loss(scores[slate.query].gather(1, slate.item), slate)
        found.append(loss.u.read(slate.pair[slate.active]))
    found = torch.stack(found)
    error = found.std(0) / len(found) ** 0.5
    assert torch.equal(slate.pair[slate.active], whole.pair[whole.active])
    assert ((found.mean(0) - exact).abs() < 5 * error + 1e-9).all()
