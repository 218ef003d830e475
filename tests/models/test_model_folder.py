"""A model folder opens anywhere with nothing but its files; whatever is wrong with one is a single line."""

import json
import pickle
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from songrank.core.errors import DataError
from songrank.data import open_dataset
from songrank.io.json_files import read_json, write_json
from songrank.models.model_folder import MODEL_FILES
from songrank.serving.open import open_model
from tests.models.small_folders import SECTIONS, change, made, refused


@pytest.mark.parametrize("folder", SECTIONS, indirect=True)
def test_a_folder_gives_back_the_model_and_its_tables(folder, models_written):
    opened, dataset = open_model(folder), open_dataset(models_written / f"data-{folder.name}")
    assert opened.inputs == folder.name
    assert opened.task == dataset.task
    assert (
        repr(opened) == f"ModelFolder({str(folder)!r}, task={dataset.task!r}, model={opened.info['model']['name']!r})"
    )
    assert f"<tr><th>task</th><td>{dataset.task}</td></tr>" in opened._repr_html_()
    assert "&lt;b&gt;" in replace(opened, path=Path("<b>"))._repr_html_()
    assert not opened.model.training
    torch.manual_seed(0)
    again = made(folder.name, dataset).state_dict()
    weights = opened.model.state_dict()
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weights[name]) for name in again)
    if folder.name != "documents":
        assert list(opened.item_ids) == list(dataset.item_ids)


def test_what_users_met_is_that_of_all_splits(models_written):
    opened = open_model(models_written / "ids")
    lines = (models_written / "log.csv").read_text().split()[1:]
    met = {
        user: sorted(int(line.split(",")[1]) for line in lines if line.startswith(f"{user},"))
        for user in opened.query_ids
    }
    offsets = opened.seen.offsets.tolist()
    for number, user in enumerate(opened.query_ids):
        items = opened.seen["item"][offsets[number] : offsets[number + 1]].tolist()
        assert sorted(opened.item_ids[items]) == met[user]


def test_files_that_were_copied_open_in_another_process(models_written, tmp_path):
    for inputs in SECTIONS:
        (tmp_path / inputs).mkdir()
        for name in ("model.json", *MODEL_FILES):
            if (models_written / inputs / name).exists():
                shutil.copy(models_written / inputs / name, tmp_path / inputs)
    code = (
        "import json, sys\nfrom songrank.serving import open_model\n"
        f"opened = [open_model(name) for name in {list(SECTIONS)!r}]\n"
        "print(json.dumps([sum(p.double().sum().item() for p in folder.model.parameters()) for folder in opened]))\n"
        "assert 'torch._dynamo' not in sys.modules, 'a second for what nobody asked'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = [open_model(models_written / name).model.parameters() for name in SECTIONS]
    assert json.loads(done.stdout) == pytest.approx([sum(p.double().sum().item() for p in model) for model in here])


@pytest.mark.parametrize("folder", SECTIONS, indirect=True)
def test_every_file_is_needed_whole_and_its_own(folder):
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        file.unlink()
        refused(folder, file.name, "missing")
        file.mkdir()
        refused(folder, file.name, "directory")
        file.rmdir()
        for wrong in (b"", data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1]), data + b"\0"):
            file.write_bytes(wrong)
            refused(folder)
        file.write_bytes(data)
    open_model(folder)


def test_files_of_two_models_are_not_mixed(folder, models_written):
    shutil.copy(models_written / "features" / "model.safetensors", folder)
    refused(folder, "model.safetensors", "checksum mismatch with model.json")
    change(folder)
    refused(folder, "model.safetensors: weights differ from model.json")


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("file", ["model.safetensors", "ids.safetensors", "seen.safetensors"])
def test_nothing_is_unpickled(folder, file):
    (folder / file).write_bytes(pickle.dumps(Evil()))
    change(folder)
    refused(folder, file, "is damaged")
    torch.save({"weight": torch.zeros(3)}, folder / file)
    change(folder)
    refused(folder, file, "is damaged")


@pytest.mark.parametrize("size", ["num_items", "num_queries"])
@pytest.mark.parametrize("value", [10**12, 2**63, 10**400, -1, 0, 1.5, "many", None, True, [3]])
def test_sizes_that_are_not_those_of_the_weights_take_no_memory(folder, size, value):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    change(folder, sizes={size: value})
    refused(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/../model.safetensors", "extra.bin"])
def test_no_name_is_followed(folder, name):
    told = json.loads((folder / "model.json").read_text())["files"]
    change(folder, files={**told, name: "0" * 64})
    refused(folder, "model.json: is damaged or was edited")
    change(folder, files={name: told["model.safetensors"], "ids.safetensors": "", "seen.safetensors": ""})
    refused(folder, "model.json: is damaged or was edited")


@pytest.mark.parametrize("folder", ["documents"], indirect=True)
@pytest.mark.parametrize(
    "options",
    [{"dims": 4}, {"dim": "four"}, {"dim": -3}, {"blocks": 10**9}, {"heads": 0}, {"dim": 10**15}, {"blocks": None}],
)
def test_options_that_are_none(folder, options):
    change(folder, model=options)
    refused(folder)


def test_layers_without_weights_are_not_built(folder):
    change(folder, model={"hidden": [4] * 200_000})
    refused(folder, "200,000 layers")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers(folder, value):
    name = next(iter(load_file(folder / "model.safetensors")))

    def spoil(tensor):
        tensor.view(-1)[-1] = value
        return tensor

    change(folder, {("model.safetensors", name): spoil})
    refused(folder, "model.safetensors: has weights that are NaN or infinite")


@pytest.mark.parametrize("version", [1, 3, 99, "2", None])
def test_versions_that_are_older_or_newer(folder, version):
    change(folder, version=version)
    refused(folder, f"has format version {version!r}", "supports 2; train again")
    change(folder, version=version, songrank="7.1")
    refused(folder, f"has format version {version!r}", "open it with songrank 7.1, or train again")


@pytest.mark.parametrize(
    "info",
    [
        {"inputs": "zzz", "task": None},
        {"inputs": None},
        {"inputs": ["ids"]},
        {"task": "search"},
        {"model": []},
        {"sizes": 3},
        {"files": []},
        {"model": {"name": ["neumf"]}},
        {"model": {"name": "mlp"}},
        {"features": 7},
    ],
)
def test_descriptions_that_are_none(folder, info):
    write_json(folder / "model.json", {**read_json(folder / "model.json"), **info})
    refused(folder, "model.json")


@pytest.mark.parametrize("folder", ["histories"], indirect=True)
def test_a_length_that_is_not_that_of_the_weights_takes_no_memory(folder):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for value in (10**12, 4, 0, "3"):
        change(folder, model={"length": value})
        refused(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB


@pytest.mark.parametrize("name", ["item", "query"])
def test_ids_that_are_not_there(folder, name):
    save_file(
        {key: value for key, value in load_file(folder / "ids.safetensors").items() if key != name}, folder / "new"
    )
    (folder / "new").rename(folder / "ids.safetensors")
    change(folder)
    refused(folder, "tables are inconsistent with model.json")


@pytest.mark.parametrize(
    "text",
    ["[" * 10**5, '{"a":' * 10**5, "[1]", "7", "", "\xff", '{"format": "songrank-model"', '{"format": "other"}', "{}"],
)
def test_json_that_describes_nothing(folder, text):
    (folder / "model.json").write_bytes(text.encode("latin-1"))
    refused(folder, "model.json", "expected a run")


def test_a_path_that_is_no_folder(tmp_path):
    refused(tmp_path / "nowhere", "is missing")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "cannot be read")


def test_the_wrong_task_names_the_right_command(folder):
    with pytest.raises(
        DataError, match=r"contains a model for recommendation, not for search; use `songrank recommend`"
    ):
        open_model(folder).need("search")
