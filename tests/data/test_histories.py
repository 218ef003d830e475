"""Histories of users from a table."""

import numpy as np
import pytest

from songrank.core.ids import Ids
from songrank.data.histories import table_histories
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
    assert [lists["item"][a:b].tolist() for a, b in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)] == wanted
