"""One user a line."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from songrank.data import DataError, prepare

COUNTS = {
    "Beauty.txt": (22_363, 12_101, 198_502),
    "Sports_and_Outdoors.txt": (35_598, 18_357, 296_337),
    "Yelp.txt": (30_431, 20_033, 316_354),
}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_real_sequences_have_the_published_counts(name, real_data, tmp_path):
    dataset = prepare("sequences", real_data / "sequences.zip" / name, tmp_path / "set")
    assert (dataset.num_queries, dataset.num_items, dataset.num_pairs) == COUNTS[name]
    assert dataset["test"].num_pairs == dataset.num_queries


def test_a_test_item_seen_before_stays_relevant_and_is_not_excluded(real_data, tmp_path):
    dataset = prepare("sequences", real_data / "sequences.zip" / "Yelp.txt", tmp_path / "set")
    relevance = dataset.relevance("test")
    assert relevance.num_pairs == 30_431
    history, last = set(), set()
    for found, splits in ((history, ("train", "validation")), (last, ("test",))):
        for split in splits:
            query, item, _ = dataset[split].unique_pairs()
            found |= set(zip(query.tolist(), item.tolist(), strict=True))
    repeated = len(history & last)
    assert repeated == 2_027  # as counted by others on the same file


def test_order_in_the_line_is_order_in_time(tmp_path):
    file = tmp_path / "s.txt"
    file.write_text("u1 z a m\nu2  a\tz q w \n\n")
    dataset = prepare("sequences", file, tmp_path / "set")
    assert dataset.item_ids[dataset["test"].item] == ["m", "w"]
    assert dataset.item_ids[dataset["validation"].item] == ["a", "q"]
    assert dataset.item_ids[dataset["train"].item] == ["z", "a", "z"]
    assert dataset["train"].time is None


@given(st.binary(max_size=80))
@example(b"\xef\xbb\xbf")
def test_any_bytes_are_sequences_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "s.txt").write_bytes(data)
    try:
        prepare("sequences", folder / "s.txt", folder / "set")
    except DataError as error:
        assert "\n" not in str(error)
