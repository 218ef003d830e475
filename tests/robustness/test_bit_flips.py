"""One flipped bit in any file of a data set or a run is refused in one line that names the file, or has no effect."""

import os
import random
import shutil
import time

import pytest
import torch

from songrank.analysis.finished_runs import read_run
from songrank.analysis.report.curves import read_history
from songrank.core.errors import UserError
from songrank.data import open_dataset, prepare
from songrank.io import verification
from songrank.io.files import sha256
from songrank.serving.open import open_model
from songrank.training.checkpoints import read_checkpoint
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory
from tests.data.small_log import log

FLIPS = 30  # per file


def text_data(folder):
    rows = {
        "text": [f"red {word} sat" for word in ("cat", "dog", "cow", "cat", "dog") * 4],
        "labels": list("ababc") * 4,
    }
    lines = [f'{{"text": "{text}", "labels": ["{label}"]}}\n' for text, label in zip(*rows.values(), strict=True)]
    (folder / "texts.jsonl").write_text("".join(lines))
    split = {"split": "random", "validation": 0.2, "test": 0.2}
    return prepare("xmc-text", folder / "texts.jsonl", folder / "texts", **split).path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set of interactions, one of texts, and a finished run."""
    folder = tmp_path_factory.mktemp("made")
    data = prepare("interactions", log(), folder / "log").path
    few = {"epochs": 1, "learning_rate": 0.01}
    recipe = {"data": str(data), "model": {"name": "neumf", "dim": 4, "hidden": [4]}, "device": "cpu"}
    Run.begin(Recipe.read({**recipe, "warm_up": few, "fine_tuning": few}), folder / "run", save_every=0.0).finish()
    return {"log": data, "texts": text_data(folder), "run": folder / "run"}


def told(value):
    """A value as text in which every bit of every tensor counts."""
    if isinstance(value, torch.Tensor):
        return sha256(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    if isinstance(value, dict):
        return {key: told(entry) for key, entry in value.items()}
    return [told(entry) for entry in value] if isinstance(value, list | tuple) else repr(value)


def data_effect(folder):
    dataset = open_dataset(folder)
    parts = {name: {key: told(value) for key, value in vars(part).items()} for name, part in dataset.items()}
    words = dataset.info.get("vocabulary", {}).get("file")
    return [parts, dataset.info, list(dataset.item_ids), words and (folder / words).read_bytes()]


def model_effect(folder):
    model = open_model(folder)
    return told([dict(model.model.state_dict()), list(model.item_ids), list(model.query_ids), vars(model.seen)])


READERS = {
    "data": [data_effect],
    "run": [
        model_effect,
        lambda run: told(vars(read_run(run, "test"))),
        lambda run: told(vars(read_run(run, "validation"))),
        lambda run: RunDirectory(run).recipe(),
        lambda run: load_recipe(str(run)),
        lambda run: RunDirectory(run).notes(),
        read_history,
        lambda run: [told(read_checkpoint(place, None)) for place in sorted((run / "checkpoints").iterdir())],
    ],
}


def effects(folder, readers):
    """The result of each reader, or its error."""
    found = []
    for reader in readers:
        try:
            found.append(reader(folder))
        except UserError as error:
            found.append(error)
    return found


def flip(file, rng):
    content = bytearray(file.read_bytes())
    at, bit = rng.randrange(len(content)), rng.randrange(8)
    content[at] ^= 1 << bit
    file.write_bytes(content)
    return f"{file.name}: bit {bit} of byte {at}"


@pytest.mark.parametrize("name", ["log", "texts", "run"])
def test_a_flipped_bit_is_refused_or_without_effect(name, made, tmp_path):
    folder, readers = tmp_path / made[name].name, READERS["run" if name == "run" else "data"]
    shutil.copytree(made[name], folder)
    whole, rng, refusals = effects(folder, readers), random.Random(29), 0
    assert not any(isinstance(value, Exception) for value in whole)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    assert {file.name for file in files} <= KNOWN
    for file in files:
        original = file.read_bytes()
        for _ in range(FLIPS):
            what = flip(file, rng)
            for expected, found in zip(whole, effects(folder, readers), strict=True):
                if isinstance(found, UserError):
                    refusals += 1
                    assert "\n" not in str(found), what
                    assert file.name in str(found) or file.parent.name in str(found), (what, str(found))
                else:
                    assert found == expected, what
            file.write_bytes(original)
    assert effects(folder, readers) == whole
    assert refusals > 0.8 * FLIPS * len(files)


KNOWN = {"dataset.json", "train.safetensors", "validation.safetensors", "test.safetensors", "ids.safetensors"}
KNOWN |= {"vocabulary.txt", "config.yaml", "run.json", "metrics.jsonl", "model.json", "model.safetensors"}
KNOWN |= {"seen.safetensors", "test.json", "validation.json", "state.json", "tensors.safetensors"}


@pytest.fixture
def large(made, tmp_path, monkeypatch):
    """A data set whose files are all large enough for stamps, last changed an hour ago, and its stamps."""
    monkeypatch.setattr(verification, "STAMP_BYTES", 0)
    monkeypatch.setattr(verification.time, "time", lambda now=time.time: now() + 3600)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(made["log"], tmp_path / "set")
    open_dataset(tmp_path / "set")
    return tmp_path / "set", tmp_path / "cache" / "songrank" / "verified"


def hashed(monkeypatch):
    files, check = [], verification.check_sha256
    monkeypatch.setattr(verification, "check_sha256", lambda file, *told: (files.append(file.name), check(file, *told)))
    return files


def test_a_verified_file_is_hashed_again_only_if_it_has_changed_or_if_asked(large, monkeypatch):
    folder, stamps = large
    files = hashed(monkeypatch)
    assert len(list(stamps.iterdir())) == 4
    open_dataset(folder)
    assert files == []
    os.utime(folder / "test.safetensors")
    open_dataset(folder)
    assert files == ["test.safetensors"]
    open_dataset(folder, verify=True)
    assert len(files) == 5
    monkeypatch.setenv(verification.ALWAYS, "always")
    open_dataset(folder)
    assert len(files) == 9


@pytest.mark.parametrize("keep", ["size", "size and modification time", "a rename"])
def test_a_change_after_a_verification_is_noticed(keep, large):
    folder, _ = large
    file = folder / "train.safetensors"
    content, times = bytearray(file.read_bytes()), file.stat()
    content[-1] ^= 1
    if keep == "a rename":
        (folder / "new").write_bytes(content)
        os.utime(folder / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
        (folder / "new").rename(file)
    else:
        file.write_bytes(content)
    if keep == "size and modification time":
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(UserError, match=r"train.safetensors: checksum mismatch with dataset.json"):
        open_dataset(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 4000, b"7", b"{}", b"\xff\xfe", None])
def test_a_malformed_stamp_is_not_trusted(content, large, monkeypatch):
    folder, stamps = large
    for stamp in stamps.iterdir():
        stamp.unlink()
        stamp.mkdir() if content is None else stamp.write_bytes(content)
    files = hashed(monkeypatch)
    open_dataset(folder)
    assert len(files) == 4


def test_a_stamp_that_others_can_write_is_not_trusted(large, monkeypatch):
    folder, stamps = large
    for stamp in stamps.iterdir():
        stamp.chmod(0o666)
    files = hashed(monkeypatch)
    open_dataset(folder)
    assert len(files) == 4


def test_a_file_that_has_just_been_changed_is_not_remembered(large, monkeypatch):
    folder, stamps = large
    monkeypatch.undo()
    monkeypatch.setattr(verification, "STAMP_BYTES", 0)
    monkeypatch.setattr(verification, "STAMP_AGE", 3600.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(stamps.parent / "other"))
    open_dataset(folder)
    assert not (stamps.parent / "other").exists()


@pytest.mark.parametrize("home", ["/dev/null", "/proc/1/nowhere"])
def test_without_a_cache_files_are_verified_at_each_opening(home, large, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    files = hashed(monkeypatch)
    for count in (4, 8):
        open_dataset(large[0])
        assert len(files) == count


def test_old_stamps_are_forgotten(large, monkeypatch):
    folder, stamps = large
    monkeypatch.setattr(verification, "STAMPS", 4)
    (folder / "test.safetensors").touch()
    open_dataset(folder)
    assert len(list(stamps.iterdir())) <= 3
