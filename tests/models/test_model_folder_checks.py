"""Checks of the tables and descriptions in a model folder."""

import pytest
import torch

from tests.models.small_folders import change, refused

OFFSETS, ITEMS, COUNT = (("seen.safetensors", name) for name in ("offsets", "item", "count"))

ITEM_IDS, USER_IDS, USER_ENDS = (("ids.safetensors", name) for name in ("item", "query", "query.offsets"))


@pytest.mark.parametrize(
    "arrays",
    [
        {ITEM_IDS: lambda ids: ids[:-1]},
        {ITEM_IDS: lambda ids: ids.flip(0)},
        {ITEM_IDS: lambda ids: ids.float()},
        {USER_ENDS: lambda ends: ends[:-1]},
        {USER_ENDS: lambda ends: ends + 1},
        {USER_ENDS: lambda ends: ends[[0, 2, 1, *range(3, len(ends))]]},
        {USER_ENDS: lambda ends: ends.double()},
        {USER_IDS: lambda ids: ids | 0x80},
        {USER_IDS: lambda ids: torch.full_like(ids, ord("u"))},
        {OFFSETS: lambda ends: ends[:-1]},
        {OFFSETS: lambda ends: ends[[0, 2, 1, *range(3, len(ends))]]},
        {OFFSETS: lambda ends: ends + 1},
        {OFFSETS: lambda ends: ends.double()},
        {ITEMS: lambda items: items + 1000},
        {ITEMS: lambda items: items - 1000},
        {ITEMS: lambda items: items[:-1]},
        {ITEMS: lambda items: items.float()},
        {COUNT: lambda count: count[:-1]},
        {COUNT: lambda count: count.float()},
    ],
)
def test_tables_that_do_not_fit(folder, arrays):
    change(folder, arrays)
    refused(folder, "tables are inconsistent with model.json")


ENTRY_OFFSETS, ENTRIES = (("histories.safetensors", name) for name in ("offsets", "item"))


@pytest.mark.parametrize("folder", ["histories"], indirect=True)
@pytest.mark.parametrize(
    ("arrays", "info"),
    [
        ({ENTRY_OFFSETS: lambda ends: ends[:-1]}, {}),
        ({ENTRY_OFFSETS: lambda ends: ends[[0, 2, 1, *range(3, len(ends))]]}, {}),
        ({ENTRY_OFFSETS: lambda ends: ends + 1}, {}),
        ({ENTRIES: lambda items: items + 1000}, {}),
        ({ENTRIES: lambda items: items - 1000}, {}),
        ({ENTRIES: lambda items: items.long()}, {}),
        ({OFFSETS: lambda ends: ends[:-1]}, {}),
        ({USER_ENDS: lambda ends: ends[:-1]}, {}),
        ({}, {"duplicates": "some"}),
        ({}, {"duplicates": ["last"]}),
    ],
)
def test_histories_that_do_not_fit(folder, arrays, info):
    change(folder, arrays, **info)
    refused(folder, "tables are inconsistent with model.json")


@pytest.mark.parametrize("folder", ["documents"], indirect=True)
@pytest.mark.parametrize(
    "info",
    [
        {"features": {"count": 3}},
        {"features": {"within_query": "sideways"}},
        {"features": {"names": ["a"]}},
        {"features": {"names": [1, 2]}},
        {"features": {"first_index": -5}},
        {"transform": {"mean": [0.0]}},
        {"transform": {"scale": [0.0, 1.0]}},
        {"transform": {"log": [7]}},
        {"transform": {"missing": ["x", "y"]}},
    ],
)
def test_ways_to_read_documents_that_are_none(folder, info):
    change(folder, **info)
    refused(folder, "tables are inconsistent with model.json")


@pytest.mark.parametrize("folder", ["words"], indirect=True)
@pytest.mark.parametrize("told", [{"width": 0}, {"width": 10**9}, {"width": "9"}, {"size": 5}, {"lowercase": "no"}])
def test_ways_to_read_words_that_are_none(folder, told):
    change(folder, vocabulary=told)
    refused(folder, "tables are inconsistent with model.json")


@pytest.mark.parametrize("folder", ["words"], indirect=True)
@pytest.mark.parametrize("words", [b"", b"cat\n", b"\xff\xfe\n" * 20])
def test_vocabularies_that_do_not_fit(folder, words):
    (folder / "vocabulary.txt").write_bytes(words)
    change(folder)
    refused(folder, "tables are inconsistent with model.json")
