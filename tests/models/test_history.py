"""The model of sets of items: plain loops, what it does not see, and that it learns what goes together."""

import math

import pytest
import torch

from songrank import Relevance, SlateSampler
from songrank.losses import SoftmaxCE
from songrank.models import CatalogueModel, HistoryModel

ITEMS, LENGTH = 30, 6


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = HistoryModel(ITEMS, dim=5, length=LENGTH).double().eval()
    torch.nn.init.normal_(model.bias)
    torch.nn.init.normal_(model.shift)
    return model


def histories(*rows, width=None):
    width = max(map(len, rows)) if width is None else width
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows], dtype=torch.int64)


def test_scores_are_those_of_plain_loops(model):
    rows = ([3, 7, 7], [1, 2, 3, 4, 5, 6], [9], [])
    read, item = model.item_read.weight.tolist(), model.item.weight.tolist()
    shift, bias = model.shift.tolist(), model.bias.tolist()
    for row, scores in zip(rows, model.score_all(histories(*rows)).tolist(), strict=True):
        root = math.sqrt(len(row)) if row else 1.0
        state = [math.tanh(shift[d] + sum(read[j][d] for j in row) / root) for d in range(5)]
        for i in range(ITEMS):
            assert scores[i] == pytest.approx(sum(state[d] * item[i][d] for d in range(5)) + bias[i], rel=1e-9)


def test_order_padding_and_company_change_nothing(model):
    rows = ([3, 7], [7, 3], [1, 2, 3, 4, 5, 6], [])
    together = model.score_all(histories(*rows))
    torch.testing.assert_close(together[0], together[1])
    for row, scores in zip(rows, together, strict=True):
        torch.testing.assert_close(model.score_all(histories(row, width=len(row)))[0], scores)


def test_of_a_long_history_the_last_items_are_read(model):
    long = [7, 8, 9, 1, 2, 3, 4, 5, 6]
    torch.testing.assert_close(model.score_all(histories(long)), model.score_all(histories(long[-LENGTH:])))


@pytest.mark.parametrize("shared", [False, True])
def test_items_asked_for_have_the_scores_they_have_among_all(model, shared):
    history = histories([3, 7], [1, 2, 3], [])
    item = torch.randint(ITEMS, (1 if shared else 3, 5))
    torch.testing.assert_close(model(history, item), model.score_all(history).gather(1, item.expand(3, -1)))
    assert isinstance(model, CatalogueModel)


def test_items_are_left_out_in_training_alone(model):
    history = histories([1, 2, 3, 4, 5, 6])
    plain = model.score_all(history)
    torch.testing.assert_close(model.score_all(history), plain)
    model.train()
    assert len({round(model.score_all(history)[0, 0].item(), 9) for _ in range(20)}) > 5


def test_all_of_a_history_may_be_left_out(model):
    model.train()
    found = [model.score_all(histories([4])) for _ in range(40)]
    nothing = model.eval().score_all(histories([]))
    assert any(torch.allclose(scores, nothing) for scores in found)
    assert all(scores.isfinite().all() for scores in found)


def test_a_new_head_keeps_the_vectors(model):
    before = model.item.weight.clone()
    model.reset_head()
    assert torch.equal(model.item.weight, before)
    assert not model.bias.any()


@pytest.mark.parametrize(
    ("history", "message"),
    [(torch.zeros(3), "torch.float32; expected a tensor of items"), (torch.zeros(3).long(), r"shape \[3\]")],
)
def test_what_is_no_history_is_refused(model, history, message):
    with pytest.raises((TypeError, ValueError), match=message):
        model.score_all(history)


def test_it_learns_what_goes_together_and_answers_for_strangers():
    """Items of one kind go together; a stranger who brings two of a kind is shown the rest of it."""
    torch.manual_seed(1)
    kind = torch.arange(ITEMS) % 3
    owner = torch.arange(60).repeat_interleave(6)
    item = torch.cat([torch.where(kind == u % 3)[0][torch.randperm(10)[:6]] for u in range(60)])
    sets = item.view(60, 6)
    sampler = SlateSampler(Relevance.from_pairs(owner, item, num_items=ITEMS), 20, "all", "all", seed=0)
    model, loss = HistoryModel(ITEMS, dim=8), SoftmaxCE()
    adam = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(40):
        for slate in sampler:
            adam.zero_grad()
            loss(model(sets[slate.query], slate.item), slate).backward()
            adam.step()
    scores = model.eval().score_all(histories([0, 3], [10, 25], [29, 2]))
    for row, own in zip(scores, (0, 1, 2), strict=True):
        assert set(row.topk(10).indices.tolist()) == set(torch.where(kind == own)[0].tolist())
