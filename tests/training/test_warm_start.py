"""Weights and memory go with their ids, whatever numbers these have next time."""

import pytest
import torch

from songrank.data import prepare
from songrank.training.build import make_trainer
from songrank.training.config.recipe import Recipe
from songrank.training.warm_start import WarmStart

OLD = {
    "user": [f"u{q}" for q in range(6) for _ in range(5)],
    "item": [f"i{(q + 3 * n) % 12}" for q in range(6) for n in range(5)],
}


def trainer_for(folder, table, loss, model="neumf"):
    dataset = prepare("interactions", table, folder)
    stage = {"epochs": 1, "learning_rate": 0.01}
    values = {"data": str(folder), "model": {"name": model, "dim": 4}, "batch": {"relevant": 3, "irrelevant": 4}}
    values |= {"warm_up": {"epochs": 0}, "fine_tuning": stage, "loss": loss, "device": "cpu"}
    return make_trainer(Recipe.read(values), dataset), dataset


def by_id(trainer, dataset):
    """Everything by original ids, in plain dictionaries."""
    users, items, found = list(dataset.query_ids), list(dataset.item_ids), {}
    for name, tensor in trainer.model.named_parameters():
        names = users if name.startswith("query") else items if name.startswith("item") or name == "bias" else None
        rows = enumerate(names) if names is not None else [(slice(None), "")]
        found |= {(name, key): tensor[row].tolist() for row, key in rows}
    loss = trainer.stages[-1].loss
    query, item, _ = dataset["train"].unique_pairs()
    pairs = [(users[q], items[x]) for q, x in zip(query.tolist(), item.tolist(), strict=True)]
    for name in loss.by_pair:
        found |= {(name, pair): value for pair, value in zip(pairs, loss.table(name).read().tolist(), strict=True)}
    for name in loss.by_query:
        found |= {(name, user): value for user, value in zip(users, loss.table(name).read().tolist(), strict=True)}
    return found


def check(tmp_path, loss, model="neumf"):
    first, data = trainer_for(tmp_path / "old", OLD, loss, model)
    first.run()
    before, past = by_id(first, data), WarmStart.of(first, data)

    # New ids that come first in order, so that every number changes; and the held-out pairs are others.
    more = {
        "user": [*OLD["user"], *["a new one"] * 4, "u2", "u2"],
        "item": [*OLD["item"], "a1", "i3", "a2", "i7", "a1", "a2"],
    }
    second, data = trainer_for(tmp_path / "new", more, loss, model)
    fresh = by_id(second, data)
    past.carry_over(second, data)
    after = by_id(second, data)

    kept = {key for key in after if key in before and before[key] == before[key]}
    assert len(kept) >= 30
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    new = {key for key in after if key not in before}
    assert new
    same = [after[key] == fresh[key] or (after[key] != after[key] and fresh[key] != fresh[key]) for key in new]
    assert all(same)
    return before, after


def test_weights_and_the_memory_of_pairs(tmp_path):
    before, after = check(tmp_path, "song")
    remembered = {key for key, value in before.items() if isinstance(key[1], tuple) and value == value}
    assert remembered <= set(after)  # what was trained on still is


def test_the_memory_of_queries_too(tmp_path):
    check(tmp_path, {"name": "k-song", "k": 3})


def test_biases_of_items(tmp_path):
    check(tmp_path, "song", "matrix-factorisation")


def test_a_graph_is_that_of_the_new_data(tmp_path):
    check(tmp_path, "song", "lightgcn")
    first, data = trainer_for(tmp_path / "first", OLD, "song", "lightgcn")
    second, data = trainer_for(
        tmp_path / "second", {"user": [*OLD["user"], "u0"], "item": [*OLD["item"], "i11"]}, "song", "lightgcn"
    )
    graph = {name: buffer.clone() for name, buffer in second.model.named_buffers()}
    WarmStart.of(first, data).carry_over(second, data)
    assert second.model.neighbours.shape != first.model.neighbours.shape
    assert all(torch.equal(buffer, graph[name]) for name, buffer in second.model.named_buffers())


def test_another_loss_starts_without_memory(tmp_path):
    first, data = trainer_for(tmp_path / "old", OLD, "song")
    first.run()
    past = WarmStart.of(first, data)
    second, data = trainer_for(tmp_path / "new", OLD, "listwise-ce")
    past.carry_over(second, data)
    assert torch.isnan(second.stages[-1].loss.table(second.stages[-1].loss.by_pair[0]).read()).all()
    assert by_id(second, data)["head.weight", ""] == by_id(first, data)["head.weight", ""]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"name": "song"}, {"name": "song", "surrogate": "exponential"}),
        ({"name": "k-song", "k": 3}, {"name": "k-song", "k": 3, "threshold": {"source": "periodic"}}),
    ],
    ids=["surrogate", "threshold"],
)
def test_another_kind_of_memory_of_the_same_loss_starts_anew(tmp_path, before, after):
    first, data = trainer_for(tmp_path / "old", OLD, before)
    first.run()
    second, data = trainer_for(tmp_path / "new", OLD, after)
    WarmStart.of(first, data).carry_over(second, data)
    loss = second.stages[-1].loss
    assert all(loss.table(name).read().isnan().all() for name in loss.by_pair + loss.by_query)
