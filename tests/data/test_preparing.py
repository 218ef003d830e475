"""Preparing a data set."""

import os

import pytest

from songrank.data import DataError, open_dataset, prepare
from tests.data.folders import contents
from tests.data.small_log import log


def test_the_same_source_and_options_give_the_same_bytes(folder, tmp_path):
    prepare("interactions", log(), tmp_path / "again")
    assert contents(tmp_path / "again") == contents(folder)


def test_the_source_is_not_replaced_by_its_own_data_set(tmp_path):
    prepare("synthetic", None, tmp_path / "set", queries=20, items=20, pairs=100)
    (tmp_path / "set" / "log.json").write_text("x")
    with pytest.raises(DataError, match="contains the source"):
        prepare("interactions", tmp_path / "set" / "log.json", tmp_path / "set", overwrite=True)
    assert (tmp_path / "set" / "log.json").exists()


def test_an_open_data_set_stays_as_it_was_when_it_is_replaced(folder):
    before = open_dataset(folder)
    expected = before["test"].item.tolist()
    prepare("interactions", log(seed=9), folder, overwrite=True)
    assert before["test"].item.tolist() == expected
    assert open_dataset(folder)["test"].item.tolist() != expected


def test_a_table_for_a_kind_that_reads_files_is_refused(tmp_path):
    with pytest.raises(DataError, match="source is a dict; movielens-1m needs ml-1m.zip"):
        prepare("movielens-1m", log(), tmp_path / "set")


def test_a_source_whose_name_is_no_text_is_written_down(tmp_path):
    file = tmp_path / os.fsdecode(b"caf\xe9.csv")
    file.write_text("user,item\n" + "".join(f"{user},{item}\n" for user in (1, 2) for item in (1, 2, 3)))
    dataset = prepare("interactions", file, tmp_path / "set")
    assert len(dataset.info["made"]["sources"]) == 1


def test_the_former_name_of_an_option_gives_a_hint(tmp_path):
    rows = {"who": [1, 1, 1, 2, 2, 2], "item": [2, 3, 4, 2, 3, 4]}
    with pytest.warns(FutureWarning, match="^--query-column is now --user-column$") as caught:
        dataset = prepare("interactions", rows, tmp_path / "data", query_column="who")
    assert caught[0].filename == __file__
    assert dataset.info["made"]["options"]["user_column"] == "who"
