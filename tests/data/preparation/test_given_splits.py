"""Splits of the source: which held-out pairs are dropped, and which part of training is cut for validation."""

import json
import random

import numpy as np
import polars as pl
import pytest

from songrank.data import DataError, prepare
from tests.data.folders import contents

TRAIN = [("a", 1), ("a", 2), ("a", 3), ("b", 2), ("b", 3), ("c", 1)]
VALIDATION = [("a", 4), ("b", 1), ("c", 1), ("d", 2)]
TEST = [("a", 3), ("b", 1), ("b", 9), ("c", 2), ("c", 3), ("c", 3), ("e", 9)]


def table(**splits):
    rows = [(user, item, split) for split, pairs in splits.items() for user, item in pairs]
    return pl.DataFrame(rows, schema=["user", "item", "split"], orient="row")


def made(tmp_path, frame, name="set", **options):
    return prepare("interactions", frame, tmp_path / name, split_column="split", **options)


def pairs(dataset, split):
    query, item, _ = dataset[split].unique_pairs()
    return {(dataset.query_ids[int(q)], dataset.item_ids[int(x)]) for q, x in zip(query, item, strict=True)}


def test_held_out_pairs_that_training_does_not_know_are_dropped_and_counted(tmp_path):
    dataset = made(tmp_path, table(train=TRAIN, validation=VALIDATION, test=TEST))
    assert (list(dataset.query_ids), list(dataset.item_ids)) == (["a", "b", "c"], [1, 2, 3])
    assert pairs(dataset, "train") == set(TRAIN)
    assert pairs(dataset, "validation") == {("b", 1)}
    assert pairs(dataset, "test") == {("c", 2), ("c", 3)}
    assert json.loads((tmp_path / "set" / "dataset.json").read_text())["held_out"] == {
        "validation": {
            "pairs": 4, "unknown_users": 1, "unknown_items": 1, "pairs_of_unknown": 2, "pairs_in_train": 1
        },
        "test": {
            "pairs": 6, "unknown_users": 1, "unknown_items": 1, "pairs_of_unknown": 2, "pairs_in_train": 1,
            "pairs_in_validation": 1,
        },
    }  # fmt: skip
    assert dataset.info["made"]["left_out"] == {"repeated pairs": 1}
    assert dataset.info["made"]["options"]["split"] == "given"


def test_held_out_rows_change_nothing_in_training(tmp_path):
    train = [*TRAIN, ("g", 2), ("g", 9), ("h", 9), ("h", 3)]  # c has one item, and then item 1 one user
    held_out = [("g", 3), ("z", 8), ("a", 1)], [("h", 2), ("b", 7), ("c", 2), ("a", 9), ("c", 1)], []
    sets = [
        made(tmp_path, table(train=train, test=test), f"set{at}", min_per_item=2, min_interactions=2)
        for at, test in enumerate(held_out)
    ]
    assert pairs(sets[0], "train") == set(train) - {("c", 1), ("a", 1)}
    assert [pairs(one, "test") for one in sets[:2]] == [{("g", 3)}, {("h", 2), ("a", 9)}]
    for one in sets:
        for file in ("train.safetensors", "ids.safetensors"):
            assert (one.path / file).read_bytes() == (sets[0].path / file).read_bytes()


@pytest.mark.parametrize("seed", range(5))
def test_a_plain_loop_drops_the_same_pairs(seed, tmp_path):
    draw = random.Random(seed)
    rows = {name: [(draw.randrange(12), draw.randrange(15)) for _ in range(n)] for name, n in SIZES}
    dataset = made(tmp_path, table(**rows))
    train = set(rows["train"])
    users, items, earlier = {user for user, _ in train}, {item for _, item in train}, set(train)
    for split in ("validation", "test"):
        left = {(user, item) for user, item in rows[split] if user in users and item in items} - earlier
        assert pairs(dataset, split) == left
        earlier |= left
    assert pairs(dataset, "train") == train


SIZES = (("train", 40), ("validation", 30), ("test", 30))


def test_a_part_of_each_users_training_pairs_is_cut(tmp_path):
    counts = {"a": 4, "b": 5, "c": 14, "d": 15, "e": 1}
    rows = [(user, item) for user, count in counts.items() for item in range(count)]
    rows += [(f"other {user}", item) for user in range(3) for item in range(15)]  # so that items stay known
    dataset = made(tmp_path, table(train=rows, test=[("e", 3)]), validation=0.1)
    cut = pairs(dataset, "validation")
    expected = {"a": 0, "b": 1, "c": 1, "d": 2, "e": 0, "other 0": 2, "other 1": 2, "other 2": 2}
    assert {user: sum(who == user for who, _ in cut) for user in expected} == expected
    assert pairs(dataset, "train") == set(rows) - cut
    assert pairs(dataset, "test") == {("e", 3)}

    shuffled = random.Random(1).sample(rows, len(rows))
    again = made(tmp_path, table(train=shuffled, test=[("e", 3), ("a", 77)]), "shuffled", validation=0.1)
    assert pairs(again, "validation") == cut
    other = made(tmp_path, table(train=rows), "seed", validation=0.1, seed=1)
    assert pairs(other, "validation") != cut


def test_the_choice_among_a_users_pairs_is_uniform(tmp_path):
    rows = [(user, item) for user in range(1000) for item in range(10)]
    dataset = made(tmp_path, table(train=rows), validation=0.1)
    chosen = np.bincount(dataset["validation"].item, minlength=10)
    assert chosen.sum() == 1000
    assert ((chosen - 100) ** 2 / 100).sum() < 27.9  # chi square with 9 degrees of freedom, 0.1 %


def test_every_user_and_item_keeps_a_training_pair(tmp_path):
    rows = [(user, item) for user in range(20) for item in (user, 100 + user % 2)]
    dataset = made(tmp_path, table(train=rows), validation=0.99)
    left = pairs(dataset, "train")
    assert {user for user, _ in left} == set(range(20))
    assert {item for _, item in left} == {item for _, item in rows}
    assert (dataset.num_queries, dataset.num_items) == (20, 22)


def test_rows_of_a_repeated_pair_have_one_split(tmp_path):
    rows = [(user, item) for user in range(10) for item in (0, 1, 2, 3)] * 2
    dataset = made(tmp_path, table(train=rows), duplicates="keep", validation=0.25)
    assert (dataset["train"].num_pairs, dataset["validation"].num_pairs) == (60, 20)
    assert not pairs(dataset, "train") & pairs(dataset, "validation")


def test_ratings_and_times_are_used_as_without_splits(tmp_path):
    frame = pl.DataFrame(
        {
            "user": ["a", "a", "a", "a", "b", "b", "b", "b"],
            "item": [1, 2, 3, 4, 1, 2, 3, 4],
            "rating": [5, 4, 1, 5, 4, 4, 4, 2],
            "time": [40, 10, 20, 30, 1, 2, 3, 4],
            "split": ["train", "train", "train", "test", "train", "train", "test", "dev"],
        }
    )
    frame = pl.concat([frame, frame[:1].with_columns(user=pl.lit("c"), item=pl.lit(4, pl.Int64))])
    dataset = made(tmp_path, frame, min_rating=3)
    assert dataset["train"].item.tolist() == [1, 0, 0, 1, 2]  # items 2, 1 of a by time; 1, 2 of b; 4 of c
    assert [dataset.item_ids[x] for x in dataset["test"].item] == [4]  # item 3 has no training row of at least 3
    assert dataset["train"].seen.num_entries == 1  # item 4 of b
    assert dataset["train"].place.tolist() == [0, 2, 0, 1, 0]  # the test row of a is between
    assert dataset.info["made"]["left_out"] == {"rows below min_rating": 2}
    assert "validation" not in dataset


def test_files_and_a_split_column_give_the_same_arrays(tmp_path):
    splits = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    for name, rows in splits.items():
        table(**{name: rows}).drop("split").write_csv(tmp_path / f"{name}.tsv", separator="\t")
    files = {name: tmp_path / f"{name}.tsv" for name in splits}
    one = prepare("interactions", None, tmp_path / "files", **files)
    other = made(tmp_path, table(**splits))
    names = {name for name in contents(one.path) if name.endswith(".safetensors")}
    assert names == {"train.safetensors", "validation.safetensors", "test.safetensors", "ids.safetensors"}
    for name in names:
        assert (one.path / name).read_bytes() == (other.path / name).read_bytes()
    assert one.info["held_out"] == other.info["held_out"]
    used = one.info["made"]["options"]
    assert (used["train"], used["validation"], used["test"]) == ("train.tsv", "validation.tsv", "test.tsv")


@pytest.mark.parametrize(
    ("splits", "options", "message"),
    [
        ({"test": TEST}, {}, "rows for test, but none for training"),
        ({"train": TRAIN, "dev": VALIDATION}, {"validation": 0.1}, "but the source has rows for validation"),
        (
            {"train": TRAIN, "test": [("q", 1), ("a", 1)]},
            {},
            "no test pair is left, of 2: 1 of users or items unknown ",
        ),
        ({"train": TRAIN}, {"validation": 0.01}, "no user has enough training pairs to hold out 0.01"),
        ({"train": TRAIN}, {"min_interactions": 9}, "no pair is left for training"),
        ({"train": TRAIN}, {"test": 0.1}, "expected a file for test, or no test, with split_column"),
        ({"train": TRAIN}, {"split": "time"}, "expected split given with split_column"),
        ({"train": TRAIN}, {"drop_last": 1}, "expected drop_last 0 with split given"),
        ({"train": TRAIN}, {"train": "x.csv"}, "expected train or split_column, not both"),
        ({"train": TRAIN}, {"validation": "x.csv"}, "expected train with validation x.csv"),
        ({"train": TRAIN}, {"validation": -0.1}, "expected a fraction from 0 to below 1, or a file"),
    ],
)
def test_what_does_not_fit_together_is_one_line(splits, options, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        made(tmp_path, table(**splits), **options)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"validation": "none", "test": None}, {"split": "none"}, {"preset": "raw"}, {}])
def test_none_is_no_split_of_its_own(options, tmp_path):
    dataset = prepare("interactions", table(train=TRAIN, test=TEST), tmp_path / "set", split_column="auto", **options)
    assert list(dataset) == ["train", "test"]
    used = dataset.info["made"]["options"]
    assert (used["split"], used["validation"], used["test"]) == ("given", 0, 0)


def test_without_given_splits_their_options_change_nothing(tmp_path):
    frame = table(train=[(user, item) for user in range(5) for item in range(6)])
    sets = [
        prepare("interactions", frame, tmp_path / str(at), split="random", validation=0.2, **options)
        for at, options in enumerate(({}, {"train": None, "split_column": "none"}))
    ]
    assert contents(sets[0].path) == contents(sets[1].path)
    assert "held_out" not in sets[0].info
    with pytest.raises(DataError, match="expected train or split_column with split given"):
        prepare("interactions", frame, tmp_path / "set", split="given")


def test_a_table_is_no_file(tmp_path):
    with pytest.raises(DataError, match="option train is .*expected a valid string"):
        prepare("interactions", None, tmp_path / "set", train=table(train=TRAIN))
