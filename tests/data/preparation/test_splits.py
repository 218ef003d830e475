"""How pairs and queries are divided into splits."""

import numpy as np
import pytest

from songrank.data import DataError, Ids, prepare
from songrank.data.preparation.splits import UNNAMED, leave_last_out, random_codes, split_queries, time_codes
from songrank.data.preparation_options import QuerySplitOptions
from tests.data.preparation.prepared import lists_of, prepare_in, some_lists, text_of
from tests.data.small_log import log


@pytest.mark.parametrize("split", ["time", "random"])
def test_fractions_of_a_split_by_time_or_at_random(split, tmp_path):
    dataset = prepare("interactions", log(), tmp_path / "set", split=split, validation=0.2, test=0.1, duplicates="keep")
    counts = {name: part.num_pairs for name, part in dataset.items()}
    assert sum(counts.values()) == 400
    if split == "random":
        assert counts == {"train": 280, "validation": 80, "test": 40}
        other = prepare("interactions", log(), tmp_path / "other", split=split, seed=1, validation=0.2, test=0.1)
        assert other["test"].item.tolist() != dataset["test"].item.tolist()
    else:
        assert dataset["train"].time.max() < dataset["validation"].time.min()
        assert dataset["validation"].time.max() < dataset["test"].time.min()


def test_holdout_n_takes_the_last_n_and_the_n_before(tmp_path):
    rows = {"user": [1] * 7 + [2] * 4, "item": [*range(7), *range(4)]}
    dataset = prepare("interactions", rows, tmp_path / "set", holdout=2)
    assert dataset["test"].item.tolist() == [5, 6]
    assert dataset["validation"].item.tolist() == [3, 4]
    assert dataset["train"].item.tolist() == [0, 1, 2, 0, 1, 2, 3]
    left = dataset.info["made"]["left_out"]
    assert left == {"queries too short to hold out pairs (all for training)": 1}


def test_split_codes_spelled_out():
    assert leave_last_out(np.array([4, 2]), 1).tolist() == [0, 0, 1, 2, 0, 0]
    assert leave_last_out(np.array([5, 0, 3]), 1).tolist() == [0, 0, 0, 1, 2, 0, 1, 2]
    assert np.bincount(random_codes(1000, 0.25, 0.5, 3)).tolist() == [250, 250, 500]
    assert time_codes(np.array([9, 1, 9, 5, 2]), 0.2, 0.2).tolist() == [2, 0, 2, 1, 0]
    assert time_codes(np.array([1, 2, 3, 4, 4]), 0.2, 0.2).tolist() == [0, 0, 1, 2, 2]
    assert time_codes(np.array([4, 4, 4]), 0.3, 0.3).tolist() == [2, 2, 2]


def test_a_holdout_longer_than_any_history_is_refused_at_once(tmp_path):
    with pytest.raises(DataError, match="no user has 2000000001 interactions"):
        prepare("interactions", log(), tmp_path / "set", holdout=10**9)


def test_how_queries_are_divided_does_not_depend_on_the_order_of_rows():
    found = codes([UNNAMED] * 20, validation=0.2, test=0.2)
    assert codes([UNNAMED] * 20, list(range(20))[::-1], validation=0.2, test=0.2) == found
    assert codes([UNNAMED] * 40, [*range(20), *range(20)][::-1], validation=0.2, test=0.2) == found


def test_a_random_split_keeps_every_query_whole_and_once(tmp_path):
    lists = some_lists(4, 25)
    (tmp_path / "a.txt").write_text(text_of(lists))
    dataset = prepare_in(tmp_path, "letor", tmp_path / "a.txt", validation=0.2, test=0.3)
    queries = [query for name in dataset for query in dataset.split_query_ids(name)]
    assert sorted(queries) == list(lists)
    for name in dataset:
        for query, (labels, _) in lists_of(dataset, name).items():
            assert labels == [label for label, _ in lists[query]]
    other = prepare_in(tmp_path, "letor", tmp_path / "a.txt", validation=0.2, test=0.3, seed=1)
    assert list(other.split_query_ids("test")) != list(dataset.split_query_ids("test"))


def codes(of_rows, queries=None, **options):
    of_rows = np.array(of_rows, np.uint8)
    query = np.arange(of_rows.shape[0]) if queries is None else np.array(queries)
    ids = Ids.of(np.unique(query) + 10)
    return split_queries(query, of_rows, ids, QuerySplitOptions(**options)).tolist()


def test_given_splits_stay():
    assert codes([0, 2, 1, 0]) == [0, 2, 1, 0]
    assert codes([0, 0, 1], split="given") == [0, 0, 1]


def test_validation_is_carved_out_of_training():
    found = codes([0] * 10 + [2] * 5, validation=0.3)
    assert found[10:] == [2] * 5
    assert sorted(found[:10]) == [0] * 7 + [1] * 3
    assert codes([0] * 10 + [2] * 9, validation=0.3)[:10] == found[:10]


def test_small_random_splits_have_a_query_in_each_part():
    assert sorted(codes([UNNAMED] * 3)) == [0, 1, 2]
    assert sorted(codes([UNNAMED] * 3, test=0)) == [0, 0, 1]


@pytest.mark.parametrize(
    ("split", "queries", "options", "message"),
    [
        ([0, 2, 2], [0, 0, 1], {}, "query 10 has rows in train and in test; move all rows of a query to one split"),
        ([0, 1, 0, 2], [0, 0, 1, 1], {}, r"query 10 has rows in train and in validation \(1 more queries\)"),
        ([0, 1], None, {}, "rows for train and validation, but none for test; add them, or set split=given"),
        ([1, 2], None, {}, "rows for validation and test, but none for training"),
        ([2, 2], None, {"split": "given"}, "rows for test, but none for training"),
        ([UNNAMED] * 3, None, {"split": "given"}, "not all rows have a split"),
        ([0, 1, 2], None, {"validation": 0.1}, "validation is 0.1, but the source has rows for validation"),
        ([0, 2], None, {"test": 0.1}, "test is 0.1, but the source has a test split"),
        ([0, 2], None, {"validation": 0.5}, "1 query cannot be split into validation 0.5, test 0 and training"),
        ([UNNAMED], None, {}, "1 query cannot be split into validation 0.1, test 0.1 and training"),
        ([UNNAMED] * 10, None, {"validation": 0.6, "test": 0.6}, "10 queries cannot be split"),
    ],
)
def test_splits_that_cannot_be(split, queries, options, message):
    with pytest.raises(DataError, match=message):
        codes(split, queries, **options)
