"""The sequence model: what it sees, what it does not, and that one pass gives what many would."""

import numpy as np
import pytest
import torch

from songrank.models import CatalogueModel, SequenceModel
from tests.oracles import sequence_states

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


PLAIN = {"positions": "start", "relative": False, "time_bias": False, "gates": False, "embedding_norm": False}
OPTIONS = {
    "today": {},
    "end": {"positions": "end"},
    "none": {"positions": "none"},
    "relative": {"positions": "none", "relative": True},
    "time": {"time_bias": True},
    "gates": {"gates": True},
    "norm": {"embedding_norm": True},
    "all": {"positions": "end", "relative": True, "time_bias": True, "gates": True, "embedding_norm": True},
}
TIMES = torch.tensor([[0, 5, 5, 90, 4000, 10**15], [7, 9, -1, -1, -1, -1], [-1] * 6])


def option_model(name, **more):
    """A model with random values of all weights, also of those that start at 0."""
    torch.manual_seed(0)
    sizes = {"dim": 8, "blocks": 2, "heads": 2, "length": LENGTH, "dropout": 0.3}
    model = SequenceModel(ITEMS, **{**sizes, **OPTIONS[name], **more}).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def query_of(model, history, time=TIMES):
    return (history, time[:, : history.shape[1]]) if model.reads_times else history


@pytest.mark.parametrize("name", OPTIONS)
def test_states_are_those_of_plain_loops(name):
    model = option_model(name)
    rows = ([4, 9, 9, 1, 28, 3], [3, 7], [])
    history = histories(*rows)
    found = model.states(query_of(model, history))
    scores = model.score_all(query_of(model, history))
    for row, items in enumerate(rows):
        times = TIMES[row, : len(items)].tolist()
        options = {**PLAIN, **OPTIONS[name], "heads": 2, "blocks": 2}
        wanted = sequence_states.states(model.state_dict(), items, times, **options)
        np.testing.assert_allclose(found[row, : len(items) + 1].detach().numpy(), wanted, rtol=1e-8, atol=1e-10)
        last = model.item.weight.detach().numpy() @ wanted[-1]
        np.testing.assert_allclose(scores[row].detach().numpy(), last, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_last_items_are_read_with_their_times_and_positions(name):
    model = option_model(name)
    items, times = torch.arange(9).unsqueeze(0), 10 ** torch.arange(9).unsqueeze(0)
    both = query_of(model, torch.cat([items, torch.full((1, 2), -1)], 1), torch.cat([times, times[:, :2]], 1))
    last = query_of(model, items[:, -LENGTH:], times[:, -LENGTH:])
    torch.testing.assert_close(model.score_all(both), model.score_all(last))


def test_positions_from_the_end_differ_with_what_follows():
    model = option_model("end")
    longer, shorter = model.states(histories([4, 9, 1]))[0], model.states(histories([4, 9]))[0]
    assert not torch.allclose(longer[2], shorter[2])
    torch.testing.assert_close(longer[0], shorter[0])  # the start vector has no position


def test_only_differences_of_times_matter():
    model, history = option_model("time"), histories([4, 9, 1])
    early = torch.tensor([[3, 50, 7000]])
    torch.testing.assert_close(model.score_all((history, early)), model.score_all((history, early + 10**9)))
    assert not torch.allclose(model.score_all((history, early)), model.score_all((history, early * 50)))


@pytest.mark.parametrize("name", OPTIONS)
def test_all_weights_are_trained(name):
    model = option_model(name).train()
    loss = model.score_all(query_of(model, histories([4, 9, 9, 1, 28, 3], [3, 7], [])))
    loss.square().sum().backward()
    for parameter, weight in model.named_parameters():
        assert weight.grad is not None, parameter
        assert weight.grad.isfinite().all(), parameter
        assert (weight.grad != 0).any(), parameter


def test_dropout_of_embeddings_is_set_apart():
    for told, wanted in ((None, 0.3), (0.0, 0.0), (0.7, 0.7)):
        model = SequenceModel(ITEMS, dim=8, dropout=0.3, embedding_dropout=told)
        assert (model.dropout.p, model.blocks[0].dropout.p) == (wanted, 0.3)


def test_without_options_weights_have_the_names_and_order_of_the_first_release():
    """So a seed gives the same model, and old model folders open."""
    names = [name for name, _ in SequenceModel(5, dim=4, blocks=1, length=3).named_parameters()]
    kept = ("attention_norm", "feed_norm", "project", "join", "widen", "narrow")
    block = [f"blocks.0.{part}.{kind}" for part in kept for kind in ("weight", "bias")]
    assert names == ["place", "start", "item.weight", *block, "norm.weight", "norm.bias"]


def test_missing_times_are_named():
    model, history = option_model("time"), histories([4, 9])
    with pytest.raises(TypeError, match="time is 'NoneType'; expected the times of the items"):
        model.score_all(history)
    with pytest.raises(ValueError, match=r"time is \[1, 1\]; expected the shape of the items, \[1, 2\]"):
        model.score_all((history, torch.zeros(1, 1, dtype=torch.int64)))
    with pytest.raises(TypeError, match=r"time is torch.float32; expected the times"):
        model.score_all((history, torch.zeros(1, 2)))


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


@pytest.mark.parametrize(
    "options",
    [{"positions": "middle"}, {"heads": 3}, {"length": 0}, {"dropout": 1.0}, {"blocks": 0}, {"feed_forward": 0}],
)
def test_a_wrong_size_is_named(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is"):
        SequenceModel(**{"num_items": 5, "dim": 8, **options})
