"""MovieLens: real archives to the unit, the three layouts, and the fast parser against the plain one."""

import io
import zipfile

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from songrank.data.readers.movielens import COLONS, COMMAS, TABS, careful_ratings, parse_ratings
from songrank.io.source import Block, Job, Source
from tests.data.folders import contents, write_zip

LAYOUTS = {"tabs": TABS, "colons": COLONS, "commas": COMMAS}


@pytest.mark.parametrize(
    ("name", "archive", "queries", "items", "pairs"),
    [("movielens-1m", "ml-1m.zip", 6_040, 3_706, 1_000_209), ("movielens-100k", "ml-100k.zip", 943, 1_682, 100_000)],
)
def test_real_archives_have_the_published_counts_and_one_test_item_a_user(
    name, archive, queries, items, pairs, real_data, tmp_path
):
    dataset = prepare(name, real_data / archive, tmp_path / "set")
    assert (dataset.num_queries, dataset.num_items, dataset.num_pairs) == (queries, items, pairs)
    assert dataset["validation"].num_pairs == dataset["test"].num_pairs == queries
    assert dataset["train"].num_pairs == pairs - 2 * queries


def test_the_test_items_are_those_of_a_stable_sort_by_time_in_pandas(real_data, tmp_path):
    dataset = prepare("movielens-1m", real_data / "ml-1m.zip", tmp_path / "set")
    with zipfile.ZipFile(real_data / "ml-1m.zip") as archive:
        text = archive.read("ml-1m/ratings.dat").replace(b"::", b"\t")
    frame = pandas.read_csv(io.BytesIO(text), sep="\t", names=["user", "movie", "rating", "time"])
    ordered = frame.sort_values(["user", "time"], kind="stable")
    for split, back in (("test", 1), ("validation", 2)):
        expected = ordered.groupby("user").nth(-back)
        assert dataset.item_ids[dataset[split].item] == expected.movie.tolist()
        assert dataset[split].label.tolist() == expected.rating.tolist()
    latest = frame.groupby("user").time.transform("max")
    tied = (frame.time == latest).groupby(frame.user).sum() > 1
    assert tied.mean() > 0.2  # so this test would notice an order that is not stable


@pytest.mark.parametrize(
    ("name", "member", "separator", "head"),
    [
        ("movielens-100k", "ml-100k/u.data", "\t", ""),
        ("movielens-10m", "ml-10M100K/ratings.dat", "::", ""),
        ("movielens-20m", "ml-20m/ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
        ("movielens-25m", "ml-25m/ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
        ("movielens-32m", "ml-32m/ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
    ],
)
def test_each_layout_is_read_from_archive_folder_and_file(name, member, separator, head, tmp_path):
    rows = [(7, 30, 3.5, 20), (7, 10, 4, 10), (7, 20, 5, 30), (9, 20, 0.5, 3), (9, 40, 1, 2), (9, 10, 2, 1)]
    text = head + "".join(separator.join(map(str, row)) + "\n" for row in rows)
    write_zip(tmp_path / "set.zip", {member: text, "ml/README.txt": "no"})
    file = tmp_path / "folder" / member
    file.parent.mkdir(parents=True)
    file.write_text(text)
    sets = [
        prepare(name, path, tmp_path / f"out{i}")
        for i, path in enumerate((tmp_path / "set.zip", tmp_path / "folder", file))
    ]
    for dataset in sets:
        assert list(dataset.query_ids) == [7, 9]
        assert list(dataset.item_ids) == [10, 20, 30, 40]
        assert [dataset.item_ids[x] for x in dataset["test"].item] == [20, 20]
        assert [dataset.item_ids[x] for x in dataset["validation"].item] == [30, 40]
        assert dataset["train"].label.tolist() == [4, 2]
        assert dataset["test"].time.tolist() == [30, 3]
    files = [contents(tmp_path / f"out{i}") for i in range(3)]
    for split in ("train", "validation", "test", "ids"):
        assert len({found[f"{split}.safetensors"] for found in files}) == 1


def test_equal_times_keep_the_order_of_the_file(tmp_path):
    file = tmp_path / "ratings.dat"
    file.write_text("".join(f"{user}::{movie}::3::5\n" for user in (2, 1) for movie in (9, 4, 7, 1)))
    dataset = prepare("movielens-1m", file, tmp_path / "set")
    assert [dataset.item_ids[x] for x in dataset["test"].item] == [1, 1]
    assert [dataset.item_ids[x] for x in dataset["validation"].item] == [7, 7]
    assert [dataset.item_ids[x] for x in dataset["train"].item] == [9, 4, 9, 4]


def test_small_blocks_give_the_same_columns_and_the_same_line_numbers(tmp_path):
    file = tmp_path / "ratings.dat"
    lines = [f"{i % 7}::{i}::{i % 5 + 1}::{1000 - i}" for i in range(500)]
    file.write_text("\n".join(lines))
    whole = [parse_ratings(block, COLONS) for block in Source(file).blocks(Job())]
    parts = [parse_ratings(block, COLONS) for block in Source(file).blocks(Job(), block_bytes=100)]
    assert len(parts) > 10
    for at in range(4):
        np.testing.assert_array_equal(*(np.concatenate([block[at] for block in found]) for found in (whole, parts)))
    lines[321] = "1::2::x::4"
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"ratings\.dat, line 322: rating is 'x'"):
        [parse_ratings(block, COLONS) for block in Source(file).blocks(Job(), block_bytes=100)]


FIELDS = st.one_of(
    st.integers(0, 2**31 - 1).map(str),
    st.floats(0, 5).map(lambda x: f"{x:.3g}"),
    st.sampled_from(
        [
            "",
            " 7",
            "7 ",
            "-1",
            "+3",
            "1e3",
            "nan",
            "inf",
            "x",
            "99999999999",
            "1e39",
            "2000000000000000000",
            "0.5.1",
            "١",
            "1_0",
            '"1"',
        ]
    ),
)


@given(st.lists(st.lists(FIELDS, min_size=3, max_size=5), max_size=6), st.sampled_from(sorted(LAYOUTS)), st.data())
def test_the_fast_way_agrees_with_the_plain_one_whatever_the_lines(rows, name, data):
    layout = LAYOUTS[name]
    separator = layout.separator.decode()
    text = "".join(separator.join(row) + data.draw(st.sampled_from(["\n", " \n", "\n\n"])) for row in rows).encode()
    block = Block(text, 2, "file")
    try:
        expected = careful_ratings(Block(text, 2, "file"), layout)
    except DataError as error:
        with pytest.raises(DataError) as found:
            parse_ratings(block, layout)
        assert str(found.value) == str(error)
    else:
        for ours, theirs in zip(parse_ratings(block, layout), expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


@given(st.binary(max_size=60), st.sampled_from(sorted(LAYOUTS)))
def test_any_bytes_are_ratings_or_a_data_error(data, name):
    try:
        parse_ratings(Block(data + b"\n", 1, "file"), LAYOUTS[name])
    except DataError as error:
        assert "\n" not in str(error)
