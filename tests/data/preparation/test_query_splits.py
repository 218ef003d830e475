"""How queries are divided into splits."""

import numpy as np
import pytest

from songrank.data import DataError, Ids
from songrank.data.preparation.query_splits import UNNAMED, QuerySplitOptions, split_queries
from tests.data.preparation.prepared import lists_of, prepare_in, some_lists, text_of


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
        ([0, 2, 2], [0, 0, 1], {}, "query 10 has rows in train and in test; a query belongs to one split"),
        ([0, 1, 0, 2], [0, 0, 1, 1], {}, "query 10 has rows in train and in validation, and so have 1 more"),
        ([0, 1], None, {}, "rows for train and validation and none for test; add them, or choose split given"),
        ([1, 2], None, {}, "rows for validation and test and none for training"),
        ([2, 2], None, {"split": "given"}, "rows for test and none for training"),
        ([UNNAMED] * 3, None, {"split": "given"}, "not all rows belong to a named split"),
        ([0, 1, 2], None, {"validation": 0.1}, "validation is 0.1, and the source has rows for validation"),
        ([0, 2], None, {"test": 0.1}, "test is 0.1, and the source says which queries are for test"),
        ([0, 2], None, {"validation": 0.5}, "1 query cannot be divided into validation 0.5, test 0 and a rest"),
        ([UNNAMED], None, {}, "1 query cannot be divided into validation 0.1, test 0.1 and a rest for training"),
        ([UNNAMED] * 10, None, {"validation": 0.6, "test": 0.6}, "10 queries cannot be divided"),
    ],
)
def test_splits_that_cannot_be(split, queries, options, message):
    with pytest.raises(DataError, match=message):
        codes(split, queries, **options)
