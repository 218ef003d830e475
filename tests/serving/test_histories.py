"""A model of histories in use: what it reads of known users, and of anybody who brings a history."""

import random
import shutil

import numpy as np
import polars as pl
import pytest
import torch

from songrank.core.csr import CSR
from songrank.core.errors import DataError, UserError
from songrank.core.ids import Ids
from songrank.core.processes import Processes
from songrank.data import prepare
from songrank.data.histories import table_histories
from songrank.data.preparation.interaction_log import Interactions
from songrank.models import NeuMF, SequenceModel
from songrank.serving import open_model, recommend, recommend_after
from songrank.serving.recommendations import score_users
from songrank.training.trained_model import write_model
from tests.models.small_folders import change, refused

LENGTH, FILMS = 4, 30


@pytest.fixture(scope="module")
def log():
    """Users 10, 13, …, their films in order; rows of all users are mixed, and each knows its time."""
    rng = random.Random(3)
    return {user: rng.sample(range(100, 100 + FILMS), rng.randint(1, 9)) for user in range(10, 70, 3)}


def written(place, log, rows=None, **options):
    if rows is None:
        rows = [
            {"time": time, "user": user, "item": film} for user, films in log.items() for time, film in enumerate(films)
        ]
        random.Random(4).shuffle(rows)
    table = pl.DataFrame(rows)
    dataset = prepare("interactions", table, place / "data", **options)
    torch.manual_seed(2)
    model = SequenceModel(dataset.num_items, dim=8, blocks=1, heads=2, length=LENGTH, dropout=0.2)
    torch.nn.init.normal_(model.item.weight)
    section = {"name": "sequence", "dim": 8, "blocks": 1, "heads": 2, "length": LENGTH, "dropout": 0.2}
    write_model(place / "model", model, section, dataset)
    return place / "model"


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    return open_model(written(tmp_path_factory.mktemp("made"), log))


def by_loops(folder, films, k, *, exclude=True):
    """Ids of the best items after these films, one history at a time."""
    known = [number for number in folder.item_ids.find(films).tolist() if number >= 0]
    scores = folder.model.score_all(torch.tensor([known[-LENGTH:]], dtype=torch.int64).reshape(1, -1))[0]
    order = [number for number in scores.argsort(descending=True).tolist() if not exclude or number not in known]
    return folder.item_ids[order[:k]]


def answers(folder, batches):
    found = {}
    for batch in batches:
        for position, item in zip(batch.position.tolist(), batch.item.tolist(), strict=True):
            found.setdefault(position, []).append(folder.item_ids[item])
    return found


@pytest.mark.parametrize("split", ["leave-last-out", "time", "random", "none"])
def test_known_users_are_answered_by_all_they_turned_to_in_order(log, tmp_path, split):
    folder = open_model(written(tmp_path, log, split=split))
    users = [40, 13, 10, 40]
    found = answers(folder, recommend(folder, users, 5))
    assert [found[place] for place in range(4)] == [by_loops(folder, log[user], 5) for user in users]


@pytest.mark.parametrize("split", ["leave-last-out", "random", "none"])
@pytest.mark.parametrize("times", [{}, {"time": 5}])
def test_rows_of_one_time_or_of_none_stay_in_the_order_of_the_file(log, tmp_path, split, times):
    rows = [
        {"user": user, "item": film, **times}
        for place in range(9)
        for user, films in log.items()
        for film in films[place : place + 1]
    ]
    folder = open_model(written(tmp_path, log, rows=rows, split=split))
    for user, number in zip(log, folder.query_ids.find(list(log)), strict=True):
        read = [film for film in folder.queries(number[None])[0].tolist() if film >= 0]
        assert folder.item_ids[read] == log[user][-LENGTH:]


def test_users_who_were_never_seen_get_what_is_popular(folder):
    (batch,) = recommend(folder, [40, 999], 3)
    assert batch.known.tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("at_once", [1, 3, 2**40])
def test_anybody_is_answered_by_a_history_alone(folder, log, monkeypatch, at_once):
    monkeypatch.setattr("songrank.serving.recommendations._BYTES", {"cpu": at_once * folder.model.query_bytes})
    films = [*log.values(), [], [105], [999, 105, 998]]  # known users, who has none, and films that nobody knows
    offsets = torch.tensor([0, *np.cumsum([len(row) for row in films])])
    query = np.repeat(np.arange(len(films)), [len(row) for row in films])
    ids = Ids.of([film for row in films for film in row])
    item = ids.find([film for row in films for film in row]).numpy()
    rows = Interactions(query, Ids.count(len(films)), item, ids)
    lists, met = table_histories(rows, folder.item_ids)
    assert torch.equal(met["item"], lists["item"])
    assert len(lists) == len(offsets) - 1
    batches = list(recommend_after(folder, lists, 6))
    assert sum(batch.num_users for batch in batches) == len(films)
    assert len(batches) == -(-len(films) // min(at_once, len(films)))
    found = answers(folder, batches)
    assert [found[place] for place in range(len(films))] == [by_loops(folder, row, 6) for row in films]
    assert all(batch.known.all() for batch in batches)
    shares = [recommend_after(folder, lists, 6, processes=Processes(rank, 2)) for rank in range(2)]
    shared = [batch for share in shares for batch in share]
    for one, other in zip(shared, batches, strict=True):
        assert torch.equal(one.position, other.position)
        assert torch.equal(one.score, other.score)
    everything = answers(folder, recommend_after(folder, lists, FILMS, exclude_seen=False))
    assert everything[0] == by_loops(folder, films[0], FILMS, exclude=False)


def test_items_that_may_be_and_may_not_be(folder):
    lists = CSR.from_lengths([2], item=[1, 2])
    allowed = folder.item_ids[list(range(10))]
    (batch,) = recommend_after(folder, lists, 20, allow=allowed, deny=folder.item_ids[[3, 4]])
    assert sorted(batch.item.tolist()) == [0, 5, 6, 7, 8, 9]
    with pytest.raises(UserError, match="k is 0"):
        recommend_after(folder, lists, 0)


def test_what_was_met_without_being_liked_is_not_read_and_not_recommended(folder):
    known = folder.item_ids[[0, 1, 2, 3]]
    log = Interactions(np.zeros(4, int), Ids.count(1), np.arange(4), Ids.of(known), np.array([5.0, 0.0, 2.0, 4.0]))
    read, met = table_histories(log, folder.item_ids, "keep", 3.0)
    assert (read["item"].tolist(), met["item"].tolist()) == ([0, 3], [0, 1, 2, 3])
    (batch,) = recommend_after(folder, read, FILMS, met=met)
    assert set(batch.item.tolist()) == set(range(FILMS)) - {0, 1, 2, 3}
    (alone,) = recommend_after(folder, read, FILMS)
    assert set(alone.item.tolist()) == set(range(FILMS)) - {0, 3}
    (everything,) = recommend_after(folder, read, FILMS, met=met, exclude_seen=False)
    assert everything.item.shape[0] == FILMS


def test_scores_of_users_do_not_depend_on_how_many_are_asked_for(folder, monkeypatch):
    users = torch.tensor([3, 0, 7, 7, 11])
    whole = score_users(folder, users)
    monkeypatch.setattr("songrank.serving.recommendations._BYTES", {"cpu": 1})
    torch.testing.assert_close(score_users(folder, users), whole)


def test_a_model_that_reads_times_is_answered_by_items_and_times(log, tmp_path):
    gaps = (0, 1, 90, 5000, 86400, 10**6, 10**7, 10**8, 10**9)
    rows = [
        {"user": user, "item": film, "time": user + sum(gaps[: place + 1])}
        for user, films in log.items()
        for place, film in enumerate(films)
    ]
    dataset = prepare("interactions", pl.DataFrame(rows), tmp_path / "data")
    torch.manual_seed(2)
    section = {"name": "sequence", "dim": 8, "blocks": 1, "heads": 2, "length": LENGTH, "time_bias": True}
    model = SequenceModel(dataset.num_items, **{key: value for key, value in section.items() if key != "name"})
    for weight in (model.item.weight, model.passed[0].weight):
        torch.nn.init.normal_(weight, std=3.0)
    write_model(tmp_path / "model", model, section, dataset)
    folder = open_model(tmp_path / "model")

    def wanted(user, k):
        own = [(row["item"], row["time"]) for row in rows if row["user"] == user]
        items = folder.item_ids.find([item for item, _ in own])[None, -LENGTH:]
        scores = folder.model.score_all((items, torch.tensor([[time for _, time in own]])[:, -LENGTH:]))[0]
        seen = {item for item, _ in own}
        return [item for item in folder.item_ids[scores.argsort(descending=True).tolist()] if item not in seen][:k]

    found = answers(folder, recommend(folder, list(log), 5))
    assert [found[place] for place in range(len(log))] == [wanted(user, 5) for user in log]
    query, ids = np.array([row["user"] for row in rows]), Ids.of(list(folder.item_ids))
    number = ids.find([row["item"] for row in rows]).numpy()
    table = Interactions(query, Ids.count(70), number, ids, None, np.array([row["time"] for row in rows]))
    read, _ = table_histories(table, folder.item_ids)
    found = answers(folder, recommend_after(folder, read, 5))
    assert [found[user] for user in log] == [wanted(user, 5) for user in log]
    assert len(answers(folder, recommend_after(folder, CSR.from_lengths([0], item=[], time=[]), 5))[0]) == 5
    untimed = CSR(read.offsets, {"item": read["item"]})
    with pytest.raises(UserError, match="the table has no times, but the model reads them"):
        list(recommend_after(folder, untimed, 5))
    for wrong in (lambda times: times.float(), lambda times: times[:-1]):
        shutil.copytree(tmp_path / "model", tmp_path / "wrong", dirs_exist_ok=True)
        change(tmp_path / "wrong", {("histories.safetensors", "time"): wrong})
        refused(tmp_path / "wrong", "tables are inconsistent with model.json")


def test_a_model_of_ids_says_that_it_reads_no_histories(log, tmp_path):
    dataset = prepare("interactions", {"user": [1, 1, 1, 2], "item": [1, 2, 3, 1]}, tmp_path / "data")
    write_model(tmp_path / "m", NeuMF(2, 3, dim=4), {"name": "neumf", "dim": 4}, dataset)
    lists = CSR.from_lengths([1], item=[0])
    with pytest.raises(DataError, match="contains neumf, which does not read histories; train with model=sequence"):
        recommend_after(open_model(tmp_path / "m"), lists)
    assert not (tmp_path / "m" / "histories.safetensors").exists()
