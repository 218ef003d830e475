"""The sequence model: what it sees, what it does not, and that one pass gives what many would."""

import pytest
import torch

from songrank.models import CatalogueModel, SequenceModel

ITEMS, LENGTH = 30, 6


@pytest.fixture
def model():
    torch.manual_seed(0)
    return SequenceModel(ITEMS, dim=16, blocks=2, heads=2, length=LENGTH, dropout=0.3).double().eval()


def histories(*rows, width=None):
    width = max(map(len, rows)) if width is None else width
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows], dtype=torch.int64)


def test_one_pass_gives_the_states_after_every_item(model):
    items = [4, 9, 9, 1, 28]
    states = model.states(histories(items))[0]
    for count in range(len(items) + 1):
        torch.testing.assert_close(states[count], model.states(histories(items[:count], width=count))[0, -1])


def test_a_state_depends_on_the_items_before_it_and_on_their_order(model):
    first, second, third = model.states(histories([4, 9, 1], [4, 9, 2], [9, 4, 1]))
    torch.testing.assert_close(first[:3], second[:3])
    assert not torch.allclose(first[3], second[3])
    assert not torch.allclose(first[3], third[3])


def test_padding_and_company_change_nothing(model):
    rows = ([3, 7], [1, 2, 3, 4, 5, 6], [])
    together = model.score_all(histories(*rows))
    for row, scores in zip(rows, together, strict=True):
        torch.testing.assert_close(model.score_all(histories(row, width=len(row)))[0], scores)


def test_of_a_long_history_the_last_items_are_read(model):
    long = [7, 8, 9, 1, 2, 3, 4, 5, 6]
    short = [20, 21]
    both = model.score_all(histories(long, short))
    torch.testing.assert_close(both[0], model.score_all(histories(long[-LENGTH:]))[0])
    torch.testing.assert_close(both[1], model.score_all(histories(short))[0])
    with pytest.raises(ValueError, match=r"history is \[1, 9\]; expected at most length=6 items"):
        model.states(histories(long))


@pytest.mark.parametrize("shared", [False, True])
def test_items_asked_for_have_the_scores_they_have_among_all(model, shared):
    history = histories([3, 7], [1, 2, 3], [])
    item = torch.randint(ITEMS, (1 if shared else 3, 5))
    everything = model.score_all(history)
    torch.testing.assert_close(model(history, item), everything.gather(1, item.expand(3, -1)))
    assert isinstance(model, CatalogueModel)


def test_a_new_head_leaves_items_and_blocks(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.nn.init.normal_(model.norm.weight)
    model.reset_head()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed <= {"norm.weight", "norm.bias"}


def test_it_learns_what_follows_what():
    """Each item is followed by the next number: after a few steps the model says so, for histories it never saw."""
    torch.manual_seed(0)
    model = SequenceModel(12, dim=16, blocks=1, heads=1, length=5, dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    start = torch.arange(0, 12, 2)
    chains = (start.unsqueeze(1) + torch.arange(6)) % 12
    for _ in range(150):
        states = model.states(chains[:, :-1])[:, 1:]
        loss = torch.nn.functional.cross_entropy((states @ model.item.weight.T).flatten(0, 1), chains[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    unseen = (torch.tensor([1, 5]).unsqueeze(1) + torch.arange(4)) % 12
    assert model.eval().score_all(unseen).argmax(1).tolist() == [5, 9]


@pytest.mark.parametrize(
    ("history", "error", "words"),
    [
        (torch.zeros(3, dtype=torch.int64), ValueError, r"history has shape \[3\]; expected items of B users"),
        (torch.zeros(3, 2), TypeError, "history is torch.float32; expected a tensor of items"),
        ([[1]], TypeError, "history is 'list'"),
    ],
)
def test_a_wrong_history_is_named(model, history, error, words):
    with pytest.raises(error, match=words):
        model.score_all(history)


@pytest.mark.parametrize("options", [{"heads": 3}, {"length": 0}, {"dropout": 1.0}, {"blocks": 0}, {"feed_forward": 0}])
def test_a_wrong_size_is_named(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is"):
        SequenceModel(**{"num_items": 5, "dim": 8, **options})
