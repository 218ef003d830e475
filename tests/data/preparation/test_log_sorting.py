"""Preparation on disk writes the bytes of preparation in memory."""

import gzip
import itertools
import json
import re
import subprocess
import sys
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

from songrank.core.errors import UserError
from songrank.data import DataError, prepare
from songrank.data.preparation import large_catalogue, log_sorting
from songrank.data.readers import interactions
from songrank.io.tables import polars_frames
from tests.data.folders import contents

pytest.importorskip("duckdb", reason="preparation on disk needs pip install 'songrank[large]'")

LIMIT = "1GiB"


def rows(seed=0, count=3000, users=60, items=90):
    rng = np.random.default_rng(seed)
    popular = (items * rng.random(count) ** 2).astype(int)
    return {
        "user": rng.integers(0, users, count) * 7 - 20,
        "item": [f"i{x}" for x in popular],
        "rating": rng.integers(0, 6, count) / 2,
        "time": rng.integers(0, 500, count),
    }


def on_disk_and_in_memory(tmp_path, source, *, block=37, **options):
    """The files of both ways; on disk with blocks of few rows, so that every border between blocks is met."""
    small = 4 * 8 * block
    with patch.object(large_catalogue, "_MOST_ROWS", block), patch.object(polars_frames, "_SLICE_BYTES", small):
        prepare("interactions", source, tmp_path / "disk", memory_limit=LIMIT, **options)
    prepare("interactions", source, tmp_path / "memory", **options)
    return contents(tmp_path / "disk"), contents(tmp_path / "memory")


def save(table, file):
    frame = pl.DataFrame(table)
    frame.write_parquet(file) if file.suffix == ".parquet" else frame.write_csv(file)
    return file


OPTIONS = {
    "default": {},
    "min counts": {"min_interactions": 24, "min_per_item": 9},
    "first": {"duplicates": "first", "split": "none"},
    "max": {"duplicates": "max", "split": "random", "seed": 3, "validation": 0.2, "test": 0.3},
    "keep": {"duplicates": "keep", "split": "random"},
    "time": {"split": "time", "validation": 0.25, "test": 0.1},
    "only test": {"split": "time", "validation": 0, "test": 0.5, "labels": "binary"},
    "drop last": {"drop_last": 2, "holdout": 2, "min_rating": 1.5},
    "binary": {"labels": "binary", "min_rating": 1, "min_per_item": 9},
    "no times": {"time_column": "none"},
    "no labels": {"label_column": None, "split": "time"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_bytes_are_those_of_preparation_in_memory(name, tmp_path):
    suffix = (".csv", ".parquet")[list(OPTIONS).index(name) % 2]
    disk, memory = on_disk_and_in_memory(tmp_path, save(rows(), tmp_path / f"log{suffix}"), **OPTIONS[name])
    assert list(disk) == list(memory)
    assert disk == memory


def test_minimum_counts_are_applied_until_all_have_enough(tmp_path):
    """A chain that loses a user and an item at each end per round, for 15 rounds."""
    chain = [(user, item) for user in range(30) for item in (user, user + 1)]
    core = [(user, item) for user in range(100, 104) for item in range(100, 104)]
    user, item = zip(*chain, *core, strict=True)
    options = {"min_interactions": 2, "min_per_item": 2, "split": "none"}
    disk, memory = on_disk_and_in_memory(tmp_path, {"user": user, "item": item}, block=5, **options)
    assert disk == memory
    left_out = json.loads(disk["dataset.json"])["made"]["left_out"]
    assert left_out == {"rows of items with too few interactions": 30, "rows of queries with too few interactions": 30}


IDS = {
    "integers in text": (["10", "9", "-3"], ["7", "2", "1"]),
    "text that looks like numbers": (["10", "9", "007"], ["7", "+2", "1"]),
    "beyond 64 bits": ([str(2**64), "1", "2"], [str(2**63 - 1), str(-(2**63)), "0"]),
    "Unicode and quotes": (["ä", "z", "日本"], ["it's", 'a "b"', "a,b"]),
}


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_are_numbered_as_in_memory(ids, suffix, tmp_path):
    users, items = IDS[ids]
    pairs = list(itertools.product(users, items))[:-1]
    source = save({"user": [user for user, _ in pairs], "item": [item for _, item in pairs]}, tmp_path / f"log{suffix}")
    disk, memory = on_disk_and_in_memory(tmp_path, source, split="none")
    assert disk == memory


def test_files_of_different_types_are_joined(tmp_path):
    """Integers and strings as ids, whole and fractional times, an empty part, a compressed file."""
    (tmp_path / "log").mkdir()
    table = {"user": [2, 1, 10, 2], "item": [5, 5, 6, 6], "time": [4.5, 3.0, 2.0, -0.0]}
    pl.DataFrame(table).write_parquet(tmp_path / "log" / "0.parquet")
    pl.DataFrame(table).clear().write_parquet(tmp_path / "log" / "1.parquet")
    table = {"user": ["2", "b", "10", "b"], "item": ["5", "6", "x", "5"], "time": [0, 3, 2, 2]}
    pl.DataFrame(table).write_parquet(tmp_path / "log" / "2.parquet")
    disk, memory = on_disk_and_in_memory(tmp_path, tmp_path / "log", split="none", duplicates="keep")
    assert disk == memory
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(pl.DataFrame(rows()).write_csv().encode()))
    disk, memory = on_disk_and_in_memory(tmp_path, tmp_path / "log.csv.gz", overwrite=True)
    assert disk == memory


def test_dates_and_a_table_in_memory(tmp_path):
    table = pl.DataFrame(rows()).with_columns(pl.from_epoch("time", time_unit="d"))
    disk, memory = on_disk_and_in_memory(tmp_path, table, split="time")
    assert disk == memory


REJECTED = {
    "min_rating needs ratings; set label_column": ({"user": [1, 2], "item": [3, 4]}, {"min_rating": 2}),
    "no rating is above 0": ({"user": [1, 2], "item": [3, 4], "rating": [0, 0]}, {}),
    "no interaction is left": (rows(), {"min_interactions": 4000}),
    "split time needs times": ({"user": [1, 2], "item": [3, 4]}, {"split": "time"}),
    "no user has 3 interactions": ({"user": [1, 2], "item": [3, 4]}, {}),
    "are repeated; set duplicates": (rows(), {"duplicates": "error"}),
    "row 3: rating is -1": ({"user": [1, 2, 3], "item": [3, 4, 5], "rating": [1, 2, -1]}, {}),
    "only one query is left": ({"user": [1, 1], "item": [3, 4]}, {"split": "none"}),
    "contains fractions and numbers above 2^53": (None, {}),
}


@pytest.mark.parametrize("error", REJECTED)
def test_errors_are_those_of_preparation_in_memory_and_leave_nothing(error, tmp_path):
    table, options = REJECTED[error]
    source = tmp_path / "log"
    source.mkdir()
    if table is None:
        save({"user": [1, 2], "item": [3, 4], "time": [0.5, 1.5]}, source / "0.parquet")
        table = {"user": [1, 2], "item": [3, 4], "time": [2**60, 1]}
    save(table, source / "1.parquet")
    found = []
    for limit in (None, LIMIT):
        with pytest.raises(DataError, match=re.escape(error)) as caught:
            prepare("interactions", source, tmp_path / "set", memory_limit=limit, **options)
        found.append(str(caught.value))
    assert found[0] == found[1]
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("interactions", {"memory_limit": "much"}, "memory_limit is 'much'; expected a size such as 4GB or 512MiB"),
        ("interactions", {"memory_limit": "1MB"}, "memory_limit is 0 MiB; expected at least 1,024 MiB"),
        ("movielens-1m", {"memory_limit": LIMIT}, "memory_limit is not supported for movielens-1m; omit it; it is for"),
        ("interactions", {"memory_limit": LIMIT, "split_column": "auto"}, "memory_limit does not support split given"),
    ],
)
def test_limits_that_cannot_be_kept_are_rejected(kind, options, error, tmp_path):
    file = save({**rows(), "split": ["train"] * 3000}, tmp_path / "log.csv")
    with pytest.raises(UserError, match=error):
        prepare(kind, file, tmp_path / "set", **options)
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


def test_a_limit_that_is_too_small_for_duckdb_is_one_line(tmp_path):
    file = save(rows(), tmp_path / "log.csv")
    with patch.object(log_sorting, "BASE_MEMORY", (1 << 30) - (2 << 20)), pytest.raises(DataError) as caught:
        prepare("interactions", file, tmp_path / "set", memory_limit=LIMIT)
    assert str(caught.value) == f"{file}: sorting needs more than the memory limit of 1,024 MiB; raise memory_limit"
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


def test_without_duckdb_the_error_names_the_extra(tmp_path):
    with patch.dict(sys.modules, {"duckdb": None}), pytest.raises(DataError, match=re.escape("songrank[large]")):
        prepare("interactions", rows(), tmp_path / "set", memory_limit=LIMIT)


def test_an_interrupt_while_sorting_leaves_nothing(tmp_path):
    def interrupt(what, done, total):
        if what == "sorting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare("interactions", rows(), tmp_path / "set", memory_limit=LIMIT, progress=interrupt)
    assert not list(tmp_path.iterdir())


KILLED = """
import sys
from songrank.data import prepare

def wait(what, done, total):
    if what == "splitting":
        print("here", flush=True)
        sys.stdin.read()

prepare("interactions", sys.argv[1], sys.argv[2], memory_limit="1GiB", progress=wait)
"""


def test_files_of_a_killed_process_are_removed_by_the_next(tmp_path):
    file = save(rows(), tmp_path / "log.csv")
    command = [sys.executable, "-c", KILLED, file, tmp_path / "set"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"here\n"
        process.kill()
    assert len(list(tmp_path.iterdir())) == 2
    prepare("interactions", file, tmp_path / "set")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.csv", "set"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_file_for_which_memory_is_short_is_sorted_on_disk_with_a_note(suffix, tmp_path, monkeypatch):
    file, notes = save(rows(), tmp_path / f"log{suffix.removesuffix('.gz')}"), []
    if suffix.endswith(".gz"):
        (file := tmp_path / f"log{suffix}").write_bytes(gzip.compress((tmp_path / "log.csv").read_bytes()))
    sorted_on_disk = []
    monkeypatch.setattr(interactions, "large_catalogue", lambda *a: sorted_on_disk.append(a) or large(*a))
    monkeypatch.setattr(interactions, "free_memory", lambda: 100_000)
    large = large_catalogue.large_catalogue
    prepare("interactions", file, tmp_path / "disk", note=notes.append)
    assert sorted_on_disk
    assert len(notes) == 1
    assert "sorting on disk within 1.0 GiB (see --memory-limit)" in notes[0]
    monkeypatch.setattr(interactions, "find_spec", lambda name: None)
    prepare("interactions", file, tmp_path / "memory", note=notes.append)
    assert "to sort on disk instead: pip install 'songrank[large]'" in notes[1]
    monkeypatch.setattr(interactions, "free_memory", lambda: 1 << 34)
    prepare("interactions", file, tmp_path / "again", note=notes.append)
    assert len(notes) == 2
    assert contents(tmp_path / "disk") == contents(tmp_path / "memory") == contents(tmp_path / "again")
