"""The best items that a user has not met, beside plain loops over all scores; and who was never seen."""

import csv
import random

import numpy as np
import pandas
import polars as pl
import pytest
import torch

from songrank import models
from songrank.core.errors import UserError
from songrank.core.processes import Processes
from songrank.data import open_dataset, prepare
from songrank.serving import open_model
from songrank.serving.recommendations import recommend, top
from songrank.training.trained_model import write_model

USERS, TITLES = 25, [f"Film {number}, The ({1950 + number})" for number in range(1, 41)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Who has met what, as a file of a film service has it."""
    rng = random.Random(5)
    met = {user: rng.sample(TITLES, rng.randint(4, 12)) for user in range(3, 3 + 7 * USERS, 7)}
    met[3] = TITLES[:37]  # who has met nearly all
    file = tmp_path_factory.mktemp("log") / "ratings.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["userId", "item", "rating", "timestamp"])
        writer.writerows([user, title, 4, time] for user, titles in met.items() for time, title in enumerate(titles))
    return file, met


def folder_of(log, place, whole=False):
    file, _ = log
    if not (place / "data").exists():
        prepare("interactions", file, place / "data")
    dataset = open_dataset(place / "data")
    torch.manual_seed(1)
    sizes = {"num_queries": dataset.num_queries, "num_items": dataset.num_items, "dim": 4}
    model = models.create("matrix-factorisation", **sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
            if whole:
                parameter.round_().clamp_(-1, 1)  # scores are small whole numbers, so that many are equal
    write_model(place / "model", model, {"name": "matrix-factorisation", "dim": 4}, dataset)
    return open_model(place / "model")


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    return folder_of(log, tmp_path_factory.mktemp("distinct"))


@pytest.fixture(scope="module")
def tied(log, tmp_path_factory):
    return folder_of(log, tmp_path_factory.mktemp("tied"), whole=True)


def answers(folder, users, k, **more):
    """For each place in ``users``: what was recommended, in order of rank."""
    found = [[] for _ in users]
    for batch in recommend(folder, users, k, **more):
        rows = zip(*(c.tolist() for c in (batch.position, batch.item, batch.score, batch.rank)), strict=True)
        for position, item, score, rank in rows:
            found[position].append((folder.item_ids[item], score))
            assert rank == len(found[position])
    return found


def expected(folder, met, users, k, seen=True, allow=None, deny=()):
    with torch.no_grad():
        scores = folder.model.score_all(torch.arange(len(folder.query_ids))).tolist()
    titles, known = list(folder.item_ids), list(folder.query_ids)
    found = []
    for user in users:
        row = scores[known.index(user)]
        left = [n for n, title in enumerate(titles) if title not in deny and (allow is None or title in allow)]
        left = [n for n in left if not (seen and titles[n] in met[user])]
        found.append(
            [(titles[n], pytest.approx(row[n], rel=1e-5)) for n in sorted(left, key=lambda n: (-row[n], n))][:k]
        )
    return found


@pytest.mark.parametrize("name", ["folder", "tied"])
@pytest.mark.parametrize("k", [1, 5, 39, 40, 100])
@pytest.mark.parametrize(
    "more",
    [{}, {"allow": TITLES[::3]}, {"deny": TITLES[:30]}, {"allow": [*TITLES[5:15], "unknown"], "deny": TITLES[10:20]}],
)
@pytest.mark.parametrize("seen", [True, False])
def test_as_plain_loops_have_it(request, log, name, k, more, seen):
    folder, users = request.getfixturevalue(name), [10, 3, 10, 171, 24]  # one of them twice
    found = answers(folder, users, k, exclude_seen=seen, **more)
    assert found == expected(folder, log[1], users, k, seen, **more)


def test_who_has_met_nearly_all_gets_what_is_left(folder):
    (left,) = answers(folder, [3], 10)
    assert sorted(title for title, _ in left) == sorted(TITLES[37:])


@pytest.mark.parametrize("rows", [1, 2, 7, 10**6])
def test_the_size_of_batches_changes_nothing(monkeypatch, tied, rows):
    users = [*tied.query_ids, 10**9, 3, "nobody"]
    whole = answers(tied, users, 6)
    monkeypatch.setattr("songrank.serving.recommendations._SCORES", {"cpu": rows * len(tied.item_ids)})
    assert answers(tied, users, 6) == whole
    counts = [batch.num_users for batch in recommend(tied, users)]
    assert sum(counts) == len(users)
    assert max(counts) <= rows
    shares = [list(recommend(tied, users, processes=Processes(rank, 3))) for rank in range(3)]
    shared = [batch for share in shares for batch in share]
    for one, other in zip(shared, recommend(tied, users), strict=True):
        assert (one.num_users, one.num_new) == (other.num_users, other.num_new)
        for column in ("position", "item", "score", "rank", "known"):
            assert torch.equal(getattr(one, column), getattr(other, column))


def test_ids_of_any_kind_of_column_are_the_same_users(folder):
    users = [24, 4, 3]
    plain = answers(folder, users, 3)
    kinds = [np.array(users, np.int32), pl.Series(users), pl.Series(map(str, users)), torch.tensor(users)]
    for column in [*kinds, ["24", "4", "3"], [24.0, 4.0, 3.0]]:
        assert answers(folder, column, 3) == plain


def popular(folder, met, deny=()):
    """Counted from the training pairs, without what the folder says of them."""
    counts = dict.fromkeys((title for title in folder.item_ids if title not in deny), 0)
    dataset = open_dataset(folder.path.parent / "data")
    for item in dataset["train"].item.tolist():
        title = dataset.item_ids[item]
        if title in counts:
            counts[title] += 1
    return sorted(counts.items(), key=lambda pair: -pair[1])  # stable: equal counts in order of number


def test_users_never_seen_get_what_most_met(folder, log):
    met = log[1]
    known, stranger = answers(folder, [3, -1], 7, deny=TITLES[:9])
    assert stranger == popular(folder, met, TITLES[:9])[:7]
    assert known == expected(folder, met, [3], 7, deny=TITLES[:9])[0]
    (batch,) = recommend(folder, ["nobody", 10], 2)
    assert batch.known.tolist() == [False, False, True, True]


def test_users_never_seen_get_nothing_if_so_asked(folder):
    assert answers(folder, ["nobody", 10], 2, fallback="none")[0] == []
    (batch,) = recommend(folder, ["nobody"], 2, fallback="none")
    assert (batch.item.numel(), batch.num_users) == (0, 1)


def test_users_never_seen_are_named_if_so_asked(folder):
    with pytest.raises(UserError, match=r"unknown user 'nobody'; expected known users, or fallback"):
        list(recommend(folder, [10, "nobody"], fallback="error"))
    assert answers(folder, [10], 2, fallback="error") == answers(folder, [10], 2)


@pytest.mark.parametrize("kind", [pandas.Series, pl.Series, np.array, list, tuple, iter])
def test_a_stranger_is_named_by_place_in_every_kind_of_column(folder, kind):
    users = kind([10, 24, -5, 171])
    if kind is pandas.Series:
        users.index = [2, 3, 0, 1]
    with pytest.raises(UserError, match="^unknown user -5; expected known users"):
        recommend(folder, users, fallback="error")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"allow": ["no film"]}, "allow has no item known to the model"),
        ({"deny": TITLES}, "allow and deny exclude all items"),
        ({"allow": TITLES[:2], "deny": TITLES[:2]}, "allow and deny exclude all items"),
        ({"users": {10, 24}}, "users is a set; expected a list or a column of ids, in order"),
        ({"users": {10: 1}}, "users is a dict; expected a list or a column of ids, in order"),
        ({"users": 10}, "users is 10; expected a list or a column of ids, in order"),
        ({"users": "10"}, "users is '10'; expected a list or a column of ids, in order"),
        ({"users": np.array(10)}, "expected a list or a column of ids, in order"),
        ({"users": np.array([[10]])}, r"users has shape \[1, 1\]; expected one column of ids"),
        ({"users": pl.DataFrame({"user": [10]})}, r"users has shape \[1, 1\]; expected one column of ids"),
        ({"k": "3"}, "k is '3'; expected a whole number of at least 1"),
        ({"fallback": "guess"}, "fallback is 'guess'; expected one of 'popular', 'none', 'error'"),
        ({"k": 0}, "k is 0; expected a whole number of at least 1"),
    ],
)
def test_what_cannot_be_asked(folder, more, message):
    with pytest.raises(UserError, match=message):
        recommend(folder, **{"users": [10], "k": 3, **more})  # at the call: no batch is asked for


def test_of_equal_scores_the_first_come_first():
    rng = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (50, 17), generator=rng).float()
    scores[torch.rand(50, 17, generator=rng) < 0.3] = -torch.inf
    for k in (1, 3, 16, 17):
        value, item = top(scores, k)
        for row, values, items in zip(scores.tolist(), value.tolist(), item.tolist(), strict=True):
            order = sorted((n for n in range(17) if row[n] > -torch.inf), key=lambda n: (-row[n], n))[:k]
            assert items[: len(order)] == order
            assert values == [row[n] for n in items]
            assert values[len(order) :] == [-torch.inf] * (k - len(order))


@pytest.mark.parametrize("values", ["distinct", "few", "halves of blocks"])
@pytest.mark.parametrize("items", [1000, 1003])
def test_the_largest_of_many_scores_are_those_of_a_stable_sort(items, values):
    """Rows wide enough for maxima of blocks: with ties within and between blocks, and with few allowed items."""
    rng = torch.Generator().manual_seed(items)
    scores = torch.randn(60, items, generator=rng)
    if values == "few":
        scores = (2 * scores).round()
    elif values == "halves of blocks":  # the k-th score ties with the maximum of a block that is not read
        scores = torch.where(torch.rand(60, items, generator=rng) < 0.02, 3.0, scores.clamp(max=2.0))
    scores[torch.rand(60, items, generator=rng) < 0.3] = -torch.inf
    scores[::7, 3:] = -torch.inf
    for k in (1, 2, 6):
        assert items >= 8 * 16 * (k + 1)
        value, item = top(scores, k)
        ordered, place = torch.sort(scores, dim=1, descending=True, stable=True)
        kept = ordered[:, :k] > -torch.inf
        assert torch.equal(value, ordered[:, :k])
        assert torch.equal(item[kept], place[:, :k][kept])


@pytest.mark.parametrize("rows", [1, 3, 10**6])
def test_scores_in_parts_are_those_of_the_model(folder, tied, monkeypatch, rows):
    for one in (folder, tied):
        users = list(one.query_ids)
        monkeypatch.setattr("songrank.serving.recommendations._SCORES_IN_CACHE", rows * len(one.item_ids))
        (batch,) = recommend(one, users, 5)
        scores = one.model.score_all(one.queries(torch.arange(len(users))))
        torch.testing.assert_close(batch.score, scores[batch.position, batch.item].detach())
