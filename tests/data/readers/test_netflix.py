"""The Netflix Prize in both of its layouts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from songrank.data.readers.netflix import careful_netflix, parse_netflix
from songrank.io.source import Block

MOVIE_1 = "1:\n30878,4,2005-12-26\n2647871,4,2005-12-30\n1283744,3,2004-04-22\n"
MOVIE_2 = "2:\n30878,5,2005-12-20\n2647871,1,2005-12-30\n1283744,2,2004-04-21\n"
MOVIE_7 = "7:\n30878,2,2005-12-26\n2647871,3,2005-12-29\n1283744,1,2004-04-20\n"


@pytest.mark.parametrize(
    "files",
    [
        {"combined_data_1.txt": MOVIE_1 + MOVIE_2, "combined_data_2.txt": MOVIE_7},
        {"mv_0000001.txt": MOVIE_1, "mv_0000002.txt": MOVIE_2, "mv_0000007.txt": MOVIE_7},
    ],
)
def test_both_layouts_give_the_same_data_set(files, tmp_path):
    folder = tmp_path / "netflix"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    dataset = prepare("netflix", folder, tmp_path / "set", min_interactions=1)
    assert list(dataset.query_ids) == [30878, 1283744, 2647871]
    assert list(dataset.item_ids) == [1, 2, 7]
    assert dataset.item_ids[dataset["test"].item] == [
        7,
        1,
        2,
    ]  # 1 and 7 are of one day: in order of the files
    assert dataset["test"].label.tolist() == [2, 3, 1]
    assert dataset["test"].time.tolist() == [
        int(np.datetime64(day, "s").astype(int)) for day in ("2005-12-26", "2004-04-22", "2005-12-30")
    ]


def test_both_layouts_in_one_folder_are_refused(tmp_path):
    (tmp_path / "mv_0000001.txt").write_text(MOVIE_1)
    (tmp_path / "combined_data_1.txt").write_text(MOVIE_1)
    with pytest.raises(DataError, match="contains combined_data_"):
        prepare("netflix", tmp_path, tmp_path.parent / "set")


def test_the_papers_preset_keeps_users_with_a_hundred_ratings(tmp_path):
    file = tmp_path / "combined_data_1.txt"
    active = {1: 100, 2: 99, 3: 150}
    lines = []
    for movie in range(1, 151):
        lines.append(f"{movie}:")
        lines += [f"{user},{1 + movie % 5},2005-01-{1 + movie % 28:02d}" for user, n in active.items() if movie <= n]
    file.write_text("\n".join(lines) + "\n")
    dataset = prepare("netflix", file, tmp_path / "set")
    assert list(dataset.query_ids) == [1, 3]
    assert dataset.num_pairs == 250
    assert dataset.info["made"]["left_out"] == {"rows of queries with too few interactions": 99}


LINES = st.one_of(
    st.integers(0, 10**9 - 1).map(lambda movie: f"{movie}:"),
    st.tuples(st.integers(0, 10**9 - 1), st.integers(1, 5), st.dates()).map(lambda row: f"{row[0]},{row[1]},{row[2]}"),
    st.sampled_from(
        ["", "x", "1,2", "1,6,2005-01-01", "1,3,2005-02-30", ":", "1:2", "1,3,2005-1-1", "1:,,", "-4:", ",,", "1,3,"]
    ),
)


@given(st.lists(LINES, min_size=1, max_size=8), st.sampled_from([None, 5]))
def test_the_fast_way_agrees_with_the_plain_one_whatever_the_lines(lines, movie):
    block = Block(("\n".join(lines) + "\n").encode(), 3, "file")
    try:
        expected, last = careful_netflix(block, movie)
    except DataError as error:
        with pytest.raises(DataError) as found:
            parse_netflix(block, movie)
        assert str(found.value) == str(error)
    else:
        columns, found_last = parse_netflix(block, movie)
        assert found_last == last
        for ours, theirs in zip(columns, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


@given(st.binary(max_size=60))
def test_any_bytes_are_ratings_or_a_data_error(data):
    try:
        parse_netflix(Block(data + b"\n", 1, "file"), None)
    except DataError as error:
        assert "\n" not in str(error)
