"""Interaction tables in memory."""

import datetime

import numpy as np
import polars as pl
import pytest

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.adapters.interaction_table import id_keys, label_column, read_interactions
from songrank.data.preparation_options import ColumnOptions

TABLE = {"visitor": [3, 1, 3], "asin": ["b", "a", "a"], "rating": [5, 0, 2]}


def table(values=TABLE, y=None, **columns):
    options = ColumnOptions(user_column="visitor", item_column="asin", label_column="rating", **columns)
    return read_interactions(values, y, options)


def test_columns_keep_their_original_names_for_answers():
    found = table()
    assert found.names == {"user": "visitor", "item": "asin", "label": "rating"}
    assert found.called().to_dict(as_series=False) == TABLE
    log = found.log()
    assert [log.query_ids[int(at)] for at in log.query] == TABLE["visitor"]
    assert [log.item_ids[int(at)] for at in log.item] == TABLE["asin"]


def test_more_rows_are_appended_if_their_columns_agree():
    both = table().and_more(table({"rating": [1], "asin": ["z"], "visitor": [9]}))
    assert both.frame["user"].to_list() == [3, 1, 3, 9]
    with pytest.raises(DataError, match=r"^columns are .*; expected .*, as in fit$"):
        table().and_more(read_interactions({"visitor": [1], "item": [2]}, None, ColumnOptions(user_column="visitor")))


def test_labels_may_be_given_apart():
    found = read_interactions({"user": [1, 2], "item": [3, 4]}, [1, 0], ColumnOptions())
    assert found.frame["label"].to_list() == [1, 0]
    with pytest.raises(DataError, match="^y has 1 labels, but the table 2 rows"):
        read_interactions({"user": [1, 2], "item": [3, 4]}, [1], ColumnOptions())


@pytest.mark.parametrize(
    ("options", "wanted"),
    [({}, [5, 0, 2]), ({"min_rating": 3}, [5, 0, 0]), ({"labels": "binary"}, [1, 0, 1])],
)
def test_labels_follow_the_options_of_preparation(options, wanted):
    found = label_column(table().frame, options)
    assert found.dtype == np.float32
    assert found.tolist() == wanted
    assert label_column(pl.DataFrame({"user": [1, 2]}), options).tolist() == [1, 1]


def test_ids_come_back_in_the_type_that_was_fitted():
    dates = [datetime.date(2024, 1, 2), datetime.date(2023, 5, 6)]
    found = read_interactions({"user": dates, "item": [1, 2]}, None, ColumnOptions())
    keys = Ids.of(sorted(id_keys(found.frame["user"]).to_list()))
    assert found.original("user", keys).to_list() == sorted(dates)


def test_keys_of_dates_do_not_depend_on_their_unit():
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5)
    keys = {id_keys(pl.Series([moment]).cast(pl.Datetime(unit)))[0] for unit in ("ms", "us", "ns")}
    assert len(keys) == 1


def test_a_single_id_and_a_table_without_ids_are_rejected():
    with pytest.raises(DataError, match=r"^users is 'ab'; expected a sequence: \['ab'\]$"):
        table().given("ab", "user")
    with pytest.raises(DataError, match="^the table has columns 'other'; expected 'visitor' and 'asin'$"):
        table().pairs({"other": [1]})
