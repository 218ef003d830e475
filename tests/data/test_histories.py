"""Histories of users from a table."""

import numpy as np
import pytest

from songrank.core.errors import UserError
from songrank.core.ids import Ids
from songrank.data import open_dataset, prepare
from songrank.data.histories import dataset_histories, history_rows, table_histories
from songrank.data.preparation.interaction_log import Interactions


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [("keep", [[1, 0, 1, 2, 0], [2]]), ("last", [[1, 2, 0], [2]]), ("first", [[1, 0, 2], [2]])],
)
def test_a_table_is_read_in_order_of_time_and_repeats_count_as_in_the_data(kept, wanted):
    time = np.array([5.0, 1.0, 9.0, 2.0, 3.0, 4.0, 1.0])
    query, item = np.array([0, 0, 0, 0, 0, 0, 1]), np.array([3, 1, 0, 0, 1, 2, 2])
    log = Interactions(query, Ids.count(2), item, Ids.of([7, 8, 9, 50]), None, time)
    lists, met = table_histories(log, Ids.of([7, 8, 9]), kept)
    assert met["item"].tolist() == [1, 0, 1, 2, 0, 2]
    times = [5.0, 1.0, 9.0, 2.0, 3.0, 4.0, 1.0]
    for user, (a, b) in enumerate(zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True)):
        for number, at in zip(lists["item"][a:b].tolist(), lists["time"][a:b].tolist(), strict=True):
            row = times.index(float(at)) if user == 0 else 6
            assert [7, 8, 9, 50][item[row]] == [7, 8, 9][number]
    assert [lists["item"][a:b].tolist() for a, b in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)] == wanted


def test_a_prepared_set_gives_the_times_of_its_histories(tmp_path):
    rows = [("a", 1, 50), ("a", 2, 10), ("a", 3, 90), ("a", 4, 70), ("b", 1, 5), ("b", 2, 8), ("b", 4, 6)]
    table = {name: [row[at] for row in rows] for at, name in enumerate(("user", "item", "time"))}
    prepare("interactions", table, tmp_path / "timed")
    dataset = open_dataset(tmp_path / "timed")
    for splits in (("train",), ("train", "validation"), ("train", "validation", "test")):
        found = dataset_histories(dataset, splits, times=True)
        items, times = history_rows(found, found.offsets[:-1], found.lengths, 4, times=True)
        for user, ids, when in zip(dataset.query_ids, items.tolist(), times.tolist(), strict=True):
            own = sorted((time, item) for name, item, time in rows if name == user)[: 1 + len(splits) + (user == "a")]
            own = [(time, item) for time, item in own][: sum(item >= 0 for item in ids)]
            assert [(time, dataset.item_ids[item]) for time, item in zip(when, ids, strict=True) if item >= 0] == own
        assert list(dataset_histories(dataset, splits).columns) == ["item", "label"]
    del table["time"]
    prepare("interactions", table, tmp_path / "untimed")
    with pytest.raises(UserError, match="untimed has no times; prepare it from a log with times, or use time_bias=fal"):
        dataset_histories(open_dataset(tmp_path / "untimed"), ("train",), times=True)
