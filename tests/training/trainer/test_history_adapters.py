"""Training by histories: what a model reads for a row, for validation and for test; a whole run, and one that stops."""

from dataclasses import fields

import pytest
import torch

from songrank import SONG, Slate
from songrank.data import open_dataset, prepare
from songrank.losses import SoftmaxCE
from songrank.models import SequenceModel
from songrank.sampling import SequenceSampler
from songrank.training.checkpoints import Checkpoints
from songrank.training.trainer import batch_adapters as feeds
from songrank.training.trainer.history_adapters import make_adapter
from songrank.training.trainer.loop import Trainer
from songrank.training.trainer.stages import Stage

LENGTH = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """40 users who go through 15 items in a circle, each from his own start, 3 to 12 of them."""
    made = tmp_path_factory.mktemp("data") / "set"
    rows = [(f"u{user}", (user * 7 + step) % 15, step) for user in range(40) for step in range(5 + user % 9)]
    table = {"user": [u for u, _, _ in rows], "item": [i for _, i, _ in rows], "time": [t for _, _, t in rows]}
    prepare("interactions", table, made)
    return made


def build(folder, model_seed=0, **told):
    torch.manual_seed(model_seed)
    dataset = open_dataset(folder)
    model = SequenceModel(dataset.num_items, dim=16, blocks=1, heads=1, length=LENGTH, dropout=0.0)
    return make_adapter(dataset, model=model, **told), model


@pytest.mark.parametrize("candidates", ["all", 4])
def test_evaluation_asks_for_as_many_histories_as_memory_bears(folder, monkeypatch, candidates):
    adapter, model = build(folder)
    whole = adapter.evaluate(model.eval(), "test", candidates=candidates, metrics=["ndcg@5"])
    monkeypatch.setattr(feeds, "_EVALUATION_BYTES", 7 * model.query_bytes)
    asked, states = [], model.states
    monkeypatch.setattr(model, "states", lambda history: asked.append(len(history)) or states(history))
    parts = adapter.evaluate(model, "test", candidates=candidates, metrics=["ndcg@5"])
    assert 5 < max(asked) <= 7
    assert parts.values == pytest.approx(whole.values)


@pytest.mark.parametrize("irrelevant", ["all", 5])
def test_a_row_is_scored_after_what_was_there_before_it(folder, irrelevant):
    adapter, model = build(folder)
    model = model.double().eval()
    sampler = SequenceSampler(adapter.users, adapter.histories, LENGTH, queries_per_batch=7, irrelevant=irrelevant)
    slate = sampler.draw([3, 11, 0, 20])
    scores = adapter.scores(model, slate)
    offsets = adapter.histories.offsets
    for row, entry in enumerate(slate.query.tolist()):
        user = int((offsets <= entry).sum()) - 1
        begin = max(int(offsets[user]), int(offsets[user + 1]) - 1 - LENGTH)
        history = adapter.histories["item"][begin:entry].long().unsqueeze(0)
        wanted = model(history, slate.item[[row if irrelevant != "all" else 0]])
        torch.testing.assert_close(scores[[row]], wanted)


@pytest.mark.parametrize("irrelevant", ["all", 5])
def test_a_slate_that_does_not_say_what_to_read_is_scored_alike(folder, irrelevant):
    adapter, model = build(folder)
    sampler = SequenceSampler(adapter.users, adapter.histories, LENGTH, queries_per_batch=7, irrelevant=irrelevant)
    slate = sampler.draw([3, 11, 0, 20])
    plain = Slate(**{field.name: getattr(slate, field.name) for field in fields(Slate)})
    model.eval()
    torch.testing.assert_close(adapter.scores(model, plain), adapter.scores(model, slate))
    part = slate.rows(2, 7)
    torch.testing.assert_close(adapter.scores(model, part), adapter.scores(model, slate)[2:7])


def test_a_row_of_a_random_window_is_scored_after_what_is_in_it(folder):
    adapter, model = build(folder, windows="random")
    model = model.double().eval()
    sampler = SequenceSampler(adapter.users, adapter.histories, 3, queries_per_batch=40, windows="random", seed=5)
    adapter.length = 3
    moved = 0
    for epoch in range(4):
        slate = sampler.draw(range(40), epoch=epoch)
        scores = adapter.scores(model, slate)
        user = torch.searchsorted(adapter.histories.offsets, slate.query, right=True) - 1
        for row, (owner, entry) in enumerate(zip(user.tolist(), slate.query.tolist(), strict=True)):
            last = int(slate.query[user == owner].max())
            begin = max(int(adapter.histories.offsets[owner]), last - 3)
            history = adapter.histories["item"][begin:entry].long().unsqueeze(0)
            torch.testing.assert_close(scores[[row]], model(history, slate.item))
            moved += last < int(adapter.histories.offsets[owner + 1]) - 1
    assert moved > 100


@pytest.mark.parametrize("positions", ["start", "end"])
@pytest.mark.parametrize("windows", ["sliding", "prefix"])
def test_a_row_of_a_successive_window_is_scored_after_what_is_in_it(folder, windows, positions):
    dataset = open_dataset(folder)
    torch.manual_seed(0)
    model = SequenceModel(dataset.num_items, 16, 1, 1, length=3, positions=positions).double().eval()
    adapter = make_adapter(dataset, model=model, windows=windows)
    sampler = SequenceSampler(adapter.users, adapter.histories, 3, queries_per_batch=200, windows=windows)
    slate = next(iter(sampler))
    scores = adapter.scores(model, slate)
    offsets, stride = adapter.histories.offsets, 3 if windows == "sliding" else 1
    for row, entry in enumerate(slate.query.tolist()):
        user = int((offsets <= entry).sum()) - 1
        end = next(end for end in range(int(offsets[user + 1]), 0, -stride) if end - stride <= entry)
        begin = max(int(offsets[user]), end - 1 - 3)
        history = adapter.histories["item"][begin : end - 1].long().unsqueeze(0)
        state = model.states(history)[0, entry - begin]
        torch.testing.assert_close(scores[row], model.item.weight @ state)
        if windows == "prefix":
            torch.testing.assert_close(
                scores[[row]], model.score_all(adapter.histories["item"][begin:entry][None].long())
            )
    plain = Slate(**{field.name: getattr(slate, field.name) for field in fields(Slate)})
    torch.testing.assert_close(adapter.scores(model, plain), scores)


@pytest.mark.parametrize("windows", ["last", "random", "sliding", "prefix"])
def test_times_are_read_with_their_items(folder, windows):
    dataset = open_dataset(folder)
    torch.manual_seed(0)
    model = SequenceModel(dataset.num_items, 16, 1, 1, length=3, time_bias=True).double().eval()
    torch.nn.init.normal_(model.passed[0].weight)
    adapter = make_adapter(dataset, model=model, windows=windows)
    table = adapter.histories
    table.columns["time"].pow_(3)  # so that differences depend on the place in the history
    sampler = SequenceSampler(adapter.users, table, 3, queries_per_batch=200, windows=windows, seed=3)
    slate = next(iter(sampler))
    scores = adapter.scores(model, slate)
    for row, entry in enumerate(slate.query.tolist()):
        begin = int(slate.begin[slate.row[row]])
        pair = [table[name][begin:entry].long().unsqueeze(0) for name in ("item", "time")]
        torch.testing.assert_close(scores[[row]], model.score_all(tuple(pair)))
    plain = Slate(**{field.name: getattr(slate, field.name) for field in fields(Slate)})
    torch.testing.assert_close(adapter.scores(model, plain), scores)
    items, times = adapter.queries("test", torch.arange(40))
    assert items.shape == times.shape == (40, 3)
    assert adapter.evaluate(model, "test", metrics=["ndcg@5"]).values["ndcg@5"] >= 0


def test_validation_reads_training_and_test_reads_validation_too(folder):
    adapter, _ = build(folder)
    users = torch.arange(40)
    for split, held_out in (("validation", 2), ("test", 1)):
        rows = adapter.queries(split, users)
        for user, row in enumerate(rows.tolist()):
            number = int(adapter.dataset.query_ids[user][1:])
            whole = [(number * 7 + step) % 15 for step in range(5 + number % 9)]
            ids = [adapter.dataset.item_ids[item] for item in row if item >= 0]
            assert ids == whole[: len(whole) - held_out][-LENGTH:]


def trainer(folder, checkpoints=None):
    adapter, model = build(folder)
    entries = adapter.histories["item"].shape[0]

    def sampler(seed):
        return SequenceSampler(adapter.users, adapter.histories, LENGTH, queries_per_batch=16, irrelevant=8, seed=seed)

    stages = [
        Stage("warm-up", SoftmaxCE(), sampler(0), 20, 1e-2),
        Stage("fine-tuning", SONG(entries, gamma=0.5), sampler(1), 4, 1e-3),
    ]
    kept = None if checkpoints is None else Checkpoints(checkpoints)
    return Trainer(model, adapter, stages, checkpoints=kept, evaluate_every=4, seed=5, metric="ndcg@5")


def test_a_run_learns_what_comes_next_and_ends_with_the_same_bits_when_stopped(folder, tmp_path):
    whole = trainer(folder)
    whole.run()
    assert whole.evaluate("test", metrics=["ndcg@5"]).values["ndcg@5"] > 0.8
    first = trainer(folder, tmp_path)
    first.tick = lambda: first.stop() if first.at.step == 64 else None
    first.run()
    second = trainer(folder, tmp_path)
    second.run()
    assert second.at.history == whole.at.history
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[key]), key
