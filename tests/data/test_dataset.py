"""The prepared data set: what it says, what it gives, and what it refuses."""

import json
import pickle
import shutil

import numpy as np
import pytest
import torch

from songrank.data import DataError, open_dataset, prepare
from songrank.io.json_files import read_json, write_json
from tests.data.small_log import log


def test_dataset_json_says_what_is_there_and_how_it_came(folder):
    info = json.loads((folder / "dataset.json").read_text())
    assert info["task"] == "recommendation"
    assert info["version"] == 1
    assert info["pairs"] == sum(split["pairs"] for split in info["splits"].values())
    assert set(info["columns"]) == {"offsets", "item", "label", "time"}
    assert info["made"]["options"]["split"] == "leave-last-out"
    assert info["made"]["left_out"]["repeated pairs"] > 0
    assert sum(info["labels"].values()) == info["pairs"]
    assert info["sparsity"] == pytest.approx(1 - info["pairs"] / (info["queries"] * info["items"]))


def test_each_pair_is_in_one_split_and_splits_are_in_order_of_time(folder):
    dataset = open_dataset(folder)
    for query in range(dataset.num_queries):
        times = [split.time[split.offsets[query] : split.offsets[query + 1]].tolist() for split in dataset.values()]
        assert times[0] == sorted(times[0])
        assert max(times[0]) <= times[1][0] <= times[2][0]


def test_relevance_trains_on_all_and_tests_on_what_was_not_seen(folder):
    dataset = open_dataset(folder)
    train, test = dataset.relevance("train"), dataset.relevance("test")
    assert train.list_size.unique().tolist() == [dataset.num_items]
    seen = dataset["train"].offsets.diff() + 1
    assert (test.list_size == dataset.num_items - seen).all()
    assert test.num_pairs == dataset.num_queries
    everything = dataset.relevance("test", exclude=())
    assert everything.list_size.unique().tolist() == [dataset.num_items]


def test_what_is_held_out_changes_nothing_in_what_is_trained_on(tmp_path):
    rng = np.random.default_rng(0)
    tastes = [rng.permutation(40) for _ in range(30)]
    made = []
    for name, last in (("before", slice(8, 10)), ("after", slice(20, 22))):
        items = np.concatenate([[*taste[:8], *taste[last]] for taste in tastes])
        ratings = np.tile([1, 2, 3, 4, 5, 1, 2, 3, *((4, 4) if name == "before" else (1, 5))], 30)
        times = np.tile([*range(8), *((8, 9) if name == "before" else (100, 500))], 30)
        table = {"user": np.repeat(np.arange(30), 10), "item": items, "rating": ratings, "time": times}
        made.append(prepare("interactions", table, tmp_path / name))
    assert set(made[0]["train"].item.tolist()) == set(range(40))  # so the catalogue is the same in both
    for file in ("train.safetensors", "ids.safetensors"):
        assert (tmp_path / "before" / file).read_bytes() == (tmp_path / "after" / file).read_bytes()
    assert made[0]["test"].item.tolist() != made[1]["test"].item.tolist()


def test_ids_are_numbered_by_themselves_and_not_by_how_often_they_occur(tmp_path):
    rows = {"user": [1, 1, 1, 2, 2, 2], "item": ["z", "z2", "a", "z", "z2", "m"]}
    dataset = prepare("interactions", rows, tmp_path / "set")
    assert list(dataset.item_ids) == ["a", "m", "z", "z2"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "dataset.json").unlink(), "dataset.json: is missing"),
        (lambda f: (f / "dataset.json").write_text("{"), "is not valid JSON"),
        (lambda f: (f / "dataset.json").write_text("[1]"), "is not a JSON object"),
        (lambda f: (f / "dataset.json").write_text("{}"), "is not a songrank data set"),
        (lambda f: edit(f, version=99), "has format version 99"),
        (lambda f: edit(f, task="cooking"), "malformed or was edited"),
        (lambda f: edit(f, queries="many"), "malformed or was edited"),
        (lambda f: (f / "train.safetensors").unlink(), "train.safetensors: is missing"),
        (lambda f: (f / "train.safetensors").write_bytes(b""), "train.safetensors: checksum mismatch"),
        (lambda f: cut(f / "train.safetensors"), "train.safetensors: checksum mismatch"),
        (
            lambda f: shutil.copy(f / "test.safetensors", f / "train.safetensors"),
            "checksum mismatch with dataset.json",
        ),
        (lambda f: (f / "ids.safetensors").write_bytes(b"\xff" * 100), "ids.safetensors: checksum mismatch"),
    ],
)
def test_a_damaged_data_set_is_refused_in_one_line(damage, message, folder):
    damage(folder)
    with pytest.raises(DataError, match=message) as error:
        open_all(folder)
    assert "\n" not in str(error.value)


def open_all(folder):
    dataset = open_dataset(folder)
    return dataset["train"], list(dataset.item_ids)


def edit(folder, **changes):
    write_json(folder / "dataset.json", read_json(folder / "dataset.json") | changes)


def cut(file):
    file.write_bytes(file.read_bytes()[:-10])


def test_arrays_are_mapped_not_read_and_writing_to_them_does_not_reach_the_file(folder):
    before = (folder / "train.safetensors").read_bytes()
    dataset = open_dataset(folder)
    dataset["train"].label.fill_(7)
    assert (folder / "train.safetensors").read_bytes() == before
    assert open_dataset(folder)["train"].label.max() <= 5


def test_ids_that_a_task_does_not_have_are_said_to_be_missing(folder, tmp_path):
    search = prepare("synthetic", None, tmp_path / "search", task="search", queries=20, items=100)
    with pytest.raises(AttributeError, match="a search data set has no item_ids"):
        list(search.item_ids)
    with pytest.raises(AttributeError, match="has no query_ids: queries differ between splits"):
        list(search.query_ids)
    with pytest.raises(ValueError, match="split is 'nope'; expected one of"):
        search.split_query_ids("nope")
    assert open_dataset(folder).split_query_ids("test")[0] == open_dataset(folder).query_ids[0]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("exclude", [None, (), ("train",), ("test",), ("train", "validation")])
def test_relevance_is_what_sets_of_pairs_say(split, exclude, tmp_path):
    dataset = prepare("interactions", log(seed=3), tmp_path / "set", split="random", test=0.3, duplicates="keep")
    found = {}
    for name in dataset:
        part = dataset[name]
        queries = np.repeat(np.arange(part.num_queries), part.offsets.diff())
        rows = zip(queries.tolist(), part.item.tolist(), part.label.tolist(), strict=True)
        found[name] = {(q, x): y for q, x, y in rows}  # of repeated pairs the last one stays
    names = tuple(dataset)
    others = names[: names.index(split)] if exclude is None else exclude
    relevant = found[split]
    excluded = {pair for name in others for pair in found[name]} - set(relevant)
    relevance = dataset.relevance(split, exclude=exclude)
    assert relevance.num_pairs == len(relevant)
    for query in range(dataset.num_queries):
        mine = {x: y for (q, x), y in relevant.items() if q == query}
        start, end = relevance.indptr[query : query + 2].tolist()
        assert dict(zip(relevance.item[start:end].tolist(), relevance.label[start:end].tolist(), strict=True)) == mine
        barred = sum(q == query for q, _ in excluded)
        assert relevance.list_size[query] == dataset.num_items - barred


def test_a_data_set_goes_to_another_process_as_a_path(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    dataset = open_dataset("set")
    text = pickle.dumps(dataset)
    assert len(text) < 500
    monkeypatch.chdir("/")
    assert pickle.loads(text)["train"].item.tolist() == dataset["train"].item.tolist()
    assert dataset == dataset
    assert dataset != pickle.loads(text)
    assert len({dataset, dataset}) == 1


def test_splits_without_common_queries_exclude_nothing(tmp_path):
    dataset = prepare(
        "synthetic", None, tmp_path / "set", task="labelling", queries=60, items=20, pairs=200, features=50, words=8
    )
    with pytest.raises(ValueError, match="exclude is"):
        dataset.relevance("test", exclude=("train",))


def test_a_data_set_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert prepare("interactions", log(), ".").num_pairs > 0


@pytest.mark.parametrize("key", ["labels", "relevant_per_query", "columns", "made", "shared_queries"])
def test_a_data_set_that_was_changed_by_hand_is_refused(key, folder):
    info = read_json(folder / "dataset.json")
    del info[key]
    write_json(folder / "dataset.json", info)
    with pytest.raises(DataError, match="malformed or was edited"):
        open_dataset(folder)


def ranges_of(dataset, split):
    count = dataset[split].num_queries
    return [(0, count), (0, count // 3), (count // 3, count - 1), (count - 1, count)]


@pytest.mark.parametrize("kind", ["log", "cold items", "lists", "labels"])
def test_relevance_of_some_queries_is_their_shard_of_the_whole(kind, tmp_path):
    random = {"split": "random", "validation": 0.2, "test": 0.2}
    rows = {
        "query": [n // 4 for n in range(160)],
        "label": [n % 3 for n in range(160)],
        "x": [n / 7 for n in range(160)],
    }
    dataset = {
        "log": lambda: prepare("interactions", log(), tmp_path / "set"),
        "cold items": lambda: prepare("interactions", log(), tmp_path / "set", cold_items=0.1),
        "lists": lambda: prepare(
            "feature-table", rows, tmp_path / "set", query_column="query", label_column="label", **random
        ),
        "labels": lambda: prepare("synthetic", None, tmp_path / "set", task="labelling", queries=40, items=9, pairs=90),
    }[kind]()
    for split in dataset:
        whole = dataset.relevance(split)
        for queries in ranges_of(dataset, split):
            expected, found = whole.shard(*queries), dataset.relevance(split, queries=queries)
            assert (found.query_range, found.num_queries) == (expected.query_range, expected.num_queries)
            assert found.num_items == expected.num_items
            assert found.pair_range == (0, expected.pair_range[1] - expected.pair_range[0])
            for name in ("indptr", "item", "label", "list_start", "list_span", "taken_indptr", "taken_item"):
                one, other = getattr(found, name), getattr(expected, name)
                assert one is other if other is None else torch.equal(one, other), name
            assert (found.item is found.taken_item) == (expected.item is expected.taken_item)
            assert found.item.untyped_storage().nbytes() == found.item.numel() * found.item.element_size()
