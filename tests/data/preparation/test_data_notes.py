"""Notes about prepared data: low ratings that count as relevant, large labels, dropped duplicates."""

import random

import pytest

from songrank.data import prepare
from songrank.data.preparation.data_notes import data_notes


def log(ratings, repeated=0):
    """Random interactions with these ratings, in turn; some rows are repeated."""
    rng = random.Random(3)
    pairs = [(f"u{user}", f"i{item}") for user in range(20) for item in rng.sample(range(40), 10)]
    rows = [(*pair, ratings[at % len(ratings)]) for at, pair in enumerate(pairs)]
    rows += rows[:repeated]
    return {name: [row[at] for row in rows] for at, name in enumerate(("user", "item", "rating"))}


def notes(ratings, tmp_path, repeated=0, **options):
    return data_notes(prepare("interactions", log(ratings, repeated), tmp_path / "data", **options).info)


@pytest.mark.parametrize(
    ("ratings", "line"),
    [
        ((1, 2, 3, 4, 5), "80 of 200 ratings (40.0%) are 1 or 2 of 5 and count as relevant; min_rating=3 leaves"),
        ((0.5, 3.0, 3.5, 5.0), "50 of 200 ratings (25.0%) are 0.5 of 5 and count as relevant; min_rating=3 leaves"),
        ((0, 1, 2, 3, 3), "40 of 160 ratings (25.0%) are 1 of 3 and count as relevant; min_rating=2 leaves"),
        ((1, 5, 6, 9, 10), "80 of 200 ratings (40.0%) are 1 or 5 of 10 and count as relevant; min_rating=6 leaves"),
    ],
)
@pytest.mark.parametrize("labels", ["rating", "binary"])
def test_low_ratings_are_counted_with_a_suggestion(ratings, line, labels, tmp_path):
    (found,) = notes(ratings, tmp_path, labels=labels)
    assert found == f"{line} them out"


@pytest.mark.parametrize(
    ("ratings", "options"),
    [
        ((1, 2, 3, 4, 5), {"min_rating": 2}),  # the user has chosen
        ((1,), {}),
        ((1, 2), {}),
        ((1, 1, 1, 1, 2, 3, 7), {}),  # numbers of visits
        ((3, 9, 20), {}),
        (tuple(range(1, 50, 1))[:20], {}),  # more than a scale of ratings
    ],
)
def test_other_labels_are_not_ratings(ratings, options, tmp_path):
    assert notes(ratings, tmp_path, **options) == []


def test_the_suggested_rating_leaves_them_out(tmp_path):
    prepare("interactions", log((1, 2, 3, 4, 5)), tmp_path / "all")
    left = prepare("interactions", log((1, 2, 3, 4, 5)), tmp_path / "high", min_rating=3).info
    assert left["made"]["left_out"] == {"rows below min_rating": 80}
    assert data_notes(left) == []


@pytest.mark.parametrize(
    ("label", "why"),
    [
        (1000, "labels reach 1,000; the gain 2^y − 1 is infinite in float32 from y = 128 on: train with gain=linear"),
        (30, "labels reach 30; beside such a label, the gain 2^y − 1 of label 1 is lost in float32: train with gain"),
    ],
)
def test_large_labels_are_reported(label, why, tmp_path):
    (found,) = notes((1, 2, label), tmp_path)
    assert found.startswith(why)
    assert found.endswith(", or prepare with labels=binary")
    assert notes((1, 2, label), tmp_path / "binary", labels="binary") == []


def test_duplicates_are_counted(tmp_path):
    (found,) = notes((1,), tmp_path, repeated=7)
    assert found == "dropped 7 repeated pairs of a user and an item; the last is kept"
    assert notes((1,), tmp_path / "kept", repeated=7, duplicates="keep") == []


def test_texts_that_stand_for_missing_ids_are_reported(tmp_path, songrank):
    rows = log((1,))
    rows["user"] = [None if user == "u3" else user for user in rows["user"]]
    rows["item"] = [float("nan") if item == "i7" else item for item in rows["item"]]
    texts = {name: list(map(str, column)) for name, column in rows.items()}  # as pandas' astype(str) writes them
    lines = ["user,item,rating", *map(",".join, zip(*texts.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    done = songrank("data", "prepare", "interactions", tmp_path / "log.csv", "-o", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    for line in (
        "the user ids include 'None', each as one user; if these are missing values, remove their rows",
        "the item ids include 'nan', each as one item; if these are missing values, remove their rows",
    ):
        assert line in done.stdout
    assert data_notes(prepare("interactions", log((1,)), tmp_path / "other").info) == []
