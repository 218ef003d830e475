"""Interaction logs: rows that are not relevant are seen items; blocks of ratings are one log."""

import random

import numpy as np
import pytest

from songrank.data import DataError, prepare
from songrank.data.preparation.interaction_log import rating_columns, rating_log, rating_rows


def met(dataset):
    seen = dataset["train"].seen
    users, items = list(dataset.query_ids), list(dataset.item_ids)
    return {(users[q], items[x]) for q in range(len(users)) for x in seen.take([q])["item"].tolist()}


def test_rows_of_label_0_and_below_the_least_rating(tmp_path):
    rng = random.Random(4)
    rows = [(f"u{user}", f"i{item}", rng.randint(0, 5)) for user in range(12) for item in rng.sample(range(30), 9)]
    columns = {"user": [r[0] for r in rows], "item": [r[1] for r in rows], "rating": [r[2] for r in rows]}
    for number, least in enumerate((1, 4)):
        dataset = prepare("interactions", columns, tmp_path / str(number), min_rating=least, split="none")
        kept_users, kept_items = set(dataset.query_ids), set(dataset.item_ids)
        expected = {(u, i) for u, i, y in rows if y < least and u in kept_users and i in kept_items}
        assert met(dataset) == expected
        assert expected


def test_nothing_is_stored_where_all_rows_count(tmp_path):
    columns = {"user": [1, 1, 2, 2], "item": [1, 2, 2, 3]}
    assert prepare("interactions", columns, tmp_path / "data", split="none")["train"].seen is None


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"duplicates": "last"}, [(1, 1), (1, 2), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"duplicates": "first"}, [(1, 1), (1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"duplicates": "max"}, [(1, 1), (1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"duplicates": "keep"}, [(1, 1), (1, 2), (1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"min_rating": 3}, [(1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"labels": "binary"}, [(1, 1), (1, 1), (2, 1), (3, 1), (8, 1), (9, 1)]),
        ({"min_interactions": 2}, [(1, 2), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"min_per_item": 2}, [(1, 1), (1, 2)]),
    ],
)
def test_what_is_kept_is_what_the_option_says(options, left, tmp_path):
    table = {
        "user": ["a", "a", "a", "a", "b", "c", "d", "d"],
        "item": [1, 2, 1, 3, 1, 7, 8, 9],
        "rating": [5, 9, 2, 4, 1, 0, 3, 3],
        "time": [1, 2, 3, 4, 5, 6, 7, 8],
    }
    dataset = prepare("interactions", table, tmp_path / "set", split="none", **options)
    train = dataset["train"]
    assert sorted(zip(dataset.item_ids[train.item], train.label.tolist(), strict=True)) == left
    assert list(dataset) == ["train"]


@pytest.mark.parametrize("back", [1, 2])
def test_a_rehearsal_is_the_split_as_it_would_have_been_before(back, tmp_path):
    users = [number // 9 for number in range(9 * 6)]
    items = [(number * 7) % 23 for number in range(9 * 6)]
    table = {"user": users, "item": items, "time": list(range(9 * 6))}
    more = prepare("interactions", table, tmp_path / "more")
    less = prepare("interactions", table, tmp_path / "less", drop_last=back)

    def rows(dataset):
        """Items of each user, in order, split by split."""
        found = {}
        for split in ("train", "validation", "test"):
            ends = dataset[split].offsets.tolist()
            ids = dataset.item_ids[dataset[split].item]
            for user, start, end in zip(dataset.query_ids, ends, ends[1:], strict=False):
                found.setdefault(user, []).append(list(ids[start:end]))
        return found

    for user, (train, *held_out) in rows(more).items():
        whole = [*train, *held_out[0], *held_out[1]][: -back or None]
        assert rows(less)[user] == [whole[:-2], whole[-2:-1], whole[-1:]]
    assert less.info["made"]["left_out"] == {"last pairs": back * 6}


def test_nothing_is_left_when_more_last_ones_go_than_there_are(tmp_path):
    with pytest.raises(DataError, match="no interaction is left"):
        prepare("interactions", {"user": [1, 1], "item": [1, 2]}, tmp_path / "set", drop_last=2)


def test_too_few_interactions_are_taken_out_until_all_have_enough(tmp_path):
    users, items = list("aaabbbccd"), [1, 2, 3, 1, 2, 3, 1, 4, 4]  # d goes, so 4 goes, so c goes
    dataset = prepare(
        "interactions", {"user": users, "item": items}, tmp_path / "set", min_interactions=2, min_per_item=2
    )
    assert list(dataset.query_ids) == ["a", "b"]
    assert list(dataset.item_ids) == [1, 2, 3]


def test_rows_with_label_0_are_counted_and_are_no_pairs(tmp_path):
    table = {"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "label": [1, 0, 0, 1]}
    dataset = prepare("interactions", table, tmp_path / "set", split="none")
    assert dataset.num_pairs == 2
    assert dataset.info["made"]["left_out"] == {"rows with label 0": 2}


ROWS = [(7, 30, 4.5, 100), (2, 10, 1.0, 2**40), (7, 10, 3.0, 5)]


def test_blocks_of_any_size_are_one_log():
    for cuts in ([3], [1, 2], [1, 1, 1]):
        rows = iter(ROWS)
        log = rating_log([rating_rows([next(rows) for _ in range(size)]) for size in cuts])
        users = [log.query_ids[int(at)] for at in log.query]
        movies = [log.item_ids[int(at)] for at in log.item]
        assert list(zip(users, movies, log.label.tolist(), log.time.tolist(), strict=True)) == ROWS


def test_no_rows_have_the_types_of_ratings():
    types = (np.int32, np.int32, np.float32, np.int64)
    assert (
        [column.dtype for column in rating_columns()] == [column.dtype for column in rating_rows(ROWS)] == list(types)
    )
