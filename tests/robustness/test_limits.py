"""Hostile inputs end in one line, quickly and in bounded memory: bombs, devices, recipes that expand, long values."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import zipfile

import pytest

from songrank.analysis.finished_runs import read_run
from songrank.core import limits
from songrank.core.errors import UserError, shown
from songrank.data import prepare
from songrank.io import source
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run_directory import RunDirectory

SMALL = {"data": "x", "fine_tuning": {"epochs": 1}}


def refused(call, *words):
    with pytest.raises(UserError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1000
    assert all(word in text for word in words), text


# ---- compressed files


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(source, "RATIO_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(source, "MEMBER_BYTES", 1 << 21)
    monkeypatch.setattr(source, "BLANK_BYTES", 1 << 20)


def bomb(folder, suffix, line=b"1,2\n"):
    data = line * (1 << 20)
    if suffix == ".zip":
        with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", b"user,item\n" + data)
        return folder / "a.zip"
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix]
    (folder / f"a.csv{suffix}").write_bytes(pack(b"user,item\n" + data))
    return folder / f"a.csv{suffix}"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
def test_a_file_that_is_much_larger_when_decompressed_is_refused_unless_allowed(suffix, tmp_path, small_limits):
    file = bomb(tmp_path, suffix)
    refused(lambda: prepare("interactions", file, tmp_path / "set", max_ratio=20.0), "--max-ratio", "than 20 times")
    with pytest.raises(UserError, match="no user has 3 interactions"):
        prepare("interactions", file, tmp_path / "set", max_ratio=1e6)


def test_a_member_that_must_be_read_whole_is_limited(tmp_path, small_limits):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.parquet", bytes(1 << 22))
    code = "is larger than 0 GiB when it is decompressed; extract it"
    refused(lambda: prepare("interactions", tmp_path / "a.zip", tmp_path / "set", max_ratio=1e6), code)


def test_endless_blank_lines_are_refused(tmp_path, small_limits, monkeypatch):
    monkeypatch.setattr(source.Source._raw_blocks, "__defaults__", None)
    (tmp_path / "a.csv").write_bytes(b"user,item\n" + b"\n" * (1 << 24) * 3)
    refused(lambda: prepare("interactions", tmp_path / "a.csv", tmp_path / "set"), "of blank lines in succession")


# ---- what is not a regular file

DEVICES = """
import os, sys
from pathlib import Path
from songrank.analysis.finished_runs import read_run
from songrank.core.errors import UserError
from songrank.data import open_dataset, prepare
from songrank.io.arrays import read_arrays
from songrank.serving.open import open_model
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run_directory import RunDirectory

place = Path(sys.argv[1])
def make(name, how):
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place / name) if how == "fifo" else (place / name).symlink_to("/dev/zero")

for how in ("fifo", "device"):
    calls = {
        f"{how}/a.csv": lambda file: prepare("interactions", file, place / "set"),
        f"{how}/a.csv.gz": lambda file: prepare("interactions", file, place / "set"),
        f"{how}/a.zip": lambda file: prepare("interactions", file, place / "set"),
        f"{how}/a.parquet": lambda file: prepare("interactions", file, place / "set"),
        f"{how}/recipe.yaml": lambda file: load_recipe(str(file)),
        f"{how}/data/dataset.json": lambda file: open_dataset(file.parent),
        f"{how}/model/model.json": lambda file: open_model(file.parent),
        f"{how}/run/config.yaml": lambda file: RunDirectory(file.parent).recipe(),
        f"{how}/run2/config.yaml": lambda file: read_run(file.parent),
        f"{how}/a.safetensors": read_arrays,
    }
    for name, call in calls.items():
        make(name, how)
        try:
            call(place / name)
            print("accepted", name)
        except UserError as error:
            if "\\n" in str(error) or not (how in str(error)):
                print("odd", name, error)
print("end")
"""


@pytest.mark.skipif(os.name == "nt", reason="needs FIFOs")
def test_fifos_and_devices_are_refused_at_once(tmp_path):
    command = [sys.executable, "-c", DEVICES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr


# ---- recipes

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level}\n  <<: [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "more than 10,000 values"),
        (MERGES, "more than 10,000 values"),
        ("".join(f"k{number}: 1\n" for number in range(30_000)), "more than 10,000 values"),
        ("a: " + "[" * 1000 + "]" * 1000, "more than 50 levels"),
        ("a: &a [*a]", "contains itself"),
        ("x" * (limits.RECIPE_BYTES + 1), "larger than 1,048,576 bytes"),
        ("".join(f"k{number}: 1\n" for number in range(4_000)), "missing|unknown recipe key"),
        ("a: " + "9" * 10_000, "is not valid YAML|unknown|missing"),
    ],
)
def test_a_recipe_that_expands_is_refused(text, words, tmp_path):
    (tmp_path / "recipe.yaml").write_text(text)
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=words):
        load_recipe(str(tmp_path / "recipe.yaml"))
    refused(lambda: RunDirectory(tmp_path).recipe())
    refused(lambda: read_run(tmp_path))


@pytest.mark.parametrize(
    "model",
    [
        {"name": "neumf", "hidden": [4] * 5000},
        {"name": "sequence", "blocks": 100_000},
        {"name": "context-aware", "blocks": 10**9},
        {"name": "lightgcn", "layers": 100_000},
        {"name": "x" * 10**6},
        {"name": ["x"] * 10**5},
        {"name": "neumf", "d" * 10**6: 1},
        {"name": "neumf", "dim": [list(range(1000))] * 100},
        "y" * 10**6,
        ["neumf"] * 10**5,
    ],
)
def test_a_recipe_with_too_many_layers_or_long_values_is_refused_in_a_short_line(model):
    refused(lambda: Recipe.read({**SMALL, "model": model}))


def test_a_long_value_is_shown_without_building_all_of_it():
    class Costly(list):
        pass

    endless = [0] * 10**7
    assert shown(endless) == "[" + "0, " * 20 + "…"
    assert shown(dict.fromkeys(range(3), "x" * 10**6)).endswith("…")
    assert shown(10 ** (10**6)).startswith("0x")
    nested = []
    for _ in range(10**5):
        nested = [nested]
    assert shown(nested).startswith("[[[")
    for value in ([], (), (1,), {}, set(), {1}, frozenset(), frozenset({2}), [1, "a", {2: (3,)}], "it's", b"a", None):
        assert shown(value) == repr(value).removeprefix("b")
