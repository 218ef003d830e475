"""Features of items and users in prepared data."""

import numpy as np
import polars as pl
import pytest
import torch

from songrank.core.errors import DataError
from songrank.data import open_dataset, prepare
from songrank.data.features.table import TableEncoder
from tests.data.small_log import log


def movies(rows=85):
    return pl.DataFrame(
        {
            "item": [f"i{x}" for x in range(rows)],
            "genres": [["Drama|War", "Comedy", ""][x % 3] for x in range(rows)],
            "year": [str(1990 + x % 9) for x in range(rows)],
        }
    )


def people():
    return pl.DataFrame({"user": [x * 3 for x in range(31)], "sex": ["m" if x % 2 else "f" for x in range(31)]})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("features") / "set"
    return prepare("interactions", log(), place, items=movies(), users=people())


def test_items_without_interactions_are_candidates_and_known_as_such(prepared):
    items, users = (set(map(str, ids)) for ids in (prepared.item_ids, prepared.query_ids))
    assert items == {f"i{x}" for x in range(85)}
    assert users == {str(x * 3) for x in range(31)}
    rows = prepared.features["item"]
    counts = torch.bincount(prepared["train"].item.long(), minlength=85)
    torch.testing.assert_close(rows.trained, counts > 0)
    assert not bool(prepared.features["user"].trained[prepared.query_ids.find([90])])


def test_pairs_are_those_without_a_table(prepared, tmp_path):
    plain = prepare("interactions", log(), tmp_path / "plain")
    for split in ("train", "validation", "test"):
        for one, other in ((prepared, plain), (plain, prepared)):
            query, item, label = one[split].unique_pairs()
            found = {(one.query_ids[q], one.item_ids[i], float(y)) for q, i, y in zip(query, item, label, strict=True)}
            query, item, label = other[split].unique_pairs()
            wanted = zip(query, item, label, strict=True)
            assert found == {(other.query_ids[q], other.item_ids[i], float(y)) for q, i, y in wanted}


def test_rows_are_those_of_their_ids(prepared):
    encoder = TableEncoder.restore(prepared.info["item_features"]["columns"], prepared.encoder_arrays("item"))
    assert [(column.name, column.kind) for column in encoder.columns] == [
        ("genres", "multi-valued"),
        ("year", "numeric"),
    ]
    table = movies()
    by_id = {row["item"]: row for row in table.to_dicts()}
    ordered = pl.DataFrame([by_id[item] for item in prepared.item_ids]).drop("item")
    again, unknown = encoder.encode(ordered, "again")
    for name, tensor in again.tensors().items():
        if name != "trained":
            torch.testing.assert_close(prepared.features["item"].tensors()[name], tensor)
    assert unknown == {}


def test_the_same_tables_give_the_same_bytes_from_any_source(prepared, tmp_path):
    movies().write_csv(tmp_path / "movies.csv")
    people().write_parquet(tmp_path / "people.parquet")
    files = {"items": str(tmp_path / "movies.csv"), "users": tmp_path / "people.parquet"}
    again = prepare("interactions", log(), tmp_path / "set", **files)
    for name in ("item_features", "user_features", "train", "ids"):
        one, other = ((d.path / f"{name}.safetensors").read_bytes() for d in (prepared, again))
        assert one == other
    assert again.info["made"]["options"]["items"] == "movies.csv"


def test_pandas_tables_are_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"item": ["i1", "i2", "i3"], "price": [1.0, np.nan, 3.0], "color": ["r", None, "r"]})
    dataset = prepare("interactions", log(), tmp_path / "set", items=table)
    assert [c["kind"] for c in dataset.info["item_features"]["columns"]] == ["numeric", "categorical"]
    assert dataset.info["item_features"]["without_row"] == dataset.num_items - 3


def test_kinds_are_chosen_and_columns_left_out(tmp_path):
    options = {"items": movies(), "item_columns": "year=categorical,genres=ignore"}
    columns = prepare("interactions", log(), tmp_path / "set", **options).info["item_features"]["columns"]
    assert [(column["name"], column["kind"]) for column in columns] == [("year", "categorical")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"item_columns": {"year": "numeric"}}, "items with item_columns"),
        ({"items": movies(), "item_columns": {"yaer": "numeric"}}, "has no column 'yaer'; did you mean 'year'"),
        ({"items": movies(), "item_columns": {"year": "number"}}, "kind 'number'; expected numeric, date"),
        ({"items": pl.concat([movies(), movies()])}, "item 'i0' is repeated; keep one row per item"),
        ({"items": movies().select("item")}, "has no column with features"),
        ({"items": movies().rename({"item": "x"})}, "cannot find the item column among 'x', 'genres', 'year'"),
        ({"items": movies().with_columns(item="item" + pl.col("item"))}, "has no item with training pairs"),
        ({"users": pl.DataFrame({"user": ["a"], "sex": ["m"]})}, "user is 'a'; expected whole numbers"),
        ({"items": movies(), "memory_limit": "2GB"}, "memory_limit does not support items"),
    ],
)
def test_errors_name_the_table_and_the_remedy(options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        prepare("interactions", log(), tmp_path / "set", **options)
    assert not (tmp_path / "set").exists()


def test_damaged_features_are_detected(tmp_path):
    prepare("interactions", log(), tmp_path / "set", items=movies())
    file = tmp_path / "set" / "item_features.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"item_features\.safetensors: checksum mismatch"):
        open_dataset(tmp_path / "set")


def test_a_hostile_table_is_text_in_notes(tmp_path):
    from songrank.data.preparation.data_notes import data_notes

    table = movies().rename({"genres": "g\x1b[31m"})
    dataset = prepare("interactions", log(), tmp_path / "set", items=table)
    assert "item features: g\x1b[31m (multi-valued)" in data_notes(dataset.info)[0]  # printing makes it harmless


class TestColdItems:
    def test_no_pair_of_a_cold_item_is_in_training_and_all_are_held_out(self, tmp_path):
        whole = prepare("interactions", log(), tmp_path / "whole", split="none")
        dataset = prepare("interactions", log(), tmp_path / "set", cold_items=0.1)
        cold = {split: dataset[split].cold for split in ("validation", "test")}
        items = {split: set(table["item"].tolist()) for split, table in cold.items()}
        assert {split: len(found) for split, found in items.items()} == {"validation": 8, "test": 8}
        assert not items["validation"] & items["test"]
        kept = items["validation"] | items["test"]
        for split in dataset:
            assert not kept & set(dataset[split].item.tolist())
        pairs = sum(dataset[split].num_pairs for split in dataset) + sum(t.num_entries for t in cold.values())
        assert pairs == whole.num_pairs
        assert dataset.info["cold"]["test"] == {"items": 8, "pairs": cold["test"].num_entries}

    def test_cold_pairs_are_no_candidates_of_the_usual_evaluation(self, tmp_path):
        dataset = prepare("interactions", log(), tmp_path / "set", cold_items=0.1)
        for split in ("validation", "test"):
            found = dataset.relevance(split)
            for other in ("validation", "test"):
                table = dataset[other].cold
                for query, item in zip(table.row_of_entries().tolist(), table["item"].tolist(), strict=True):
                    row = slice(*found.taken_indptr[query : query + 2].tolist())
                    assert item in found.taken_item[row].tolist()

    def test_the_choice_depends_on_the_seed(self, tmp_path):
        sets = [prepare("interactions", log(), tmp_path / str(at), cold_items=0.1, seed=at) for at in (0, 1)]
        one, other = (set(d["test"].cold["item"].tolist()) for d in sets)
        assert one != other

    def test_with_features_items_keep_their_ids(self, tmp_path):
        plain = prepare("interactions", log(), tmp_path / "plain", cold_items=0.1)
        dataset = prepare("interactions", log(), tmp_path / "set", cold_items=0.1, items=movies())
        one, other = ({d.item_ids[x] for x in d["test"].cold["item"].tolist()} for d in (plain, dataset))
        assert one == other
        assert not bool(dataset.features["item"].trained[dataset["test"].cold["item"].long()].any())

    @pytest.mark.parametrize(
        "options", [{"split": "none"}, {"memory_limit": "2GB"}, {"split_column": "rating", "label_column": None}]
    )
    def test_cold_items_need_a_split_in_memory(self, options, tmp_path):
        with pytest.raises(DataError, match="cold_items"):
            prepare("interactions", log(), tmp_path / "set", cold_items=0.1, **options)
