"""A model folder opens anywhere with nothing but its files; whatever is wrong with one is a single line."""

import hashlib
import inspect
import json
import pickle
import random
import resource
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from songrank import models
from songrank.core.errors import DataError
from songrank.data import open_dataset, prepare
from songrank.models.model_folder import MODEL_FILES
from songrank.models.registry import MODELS
from songrank.serving.open import open_model
from songrank.training.trained_model import model_sizes, write_model

SECTIONS = {
    "ids": {"name": "neumf", "dim": 4, "hidden": [4]},
    "histories": {"name": "sequence", "dim": 4, "blocks": 1, "heads": 2, "length": 3},
    "documents": {"name": "context-aware", "dim": 4, "feed_forward": 4, "blocks": 1, "heads": 2},
    "features": {"name": "label-mlp", "hidden": [4]},
    "words": {"name": "xml-cnn", "dim": 4, "filters": 2, "windows": [2], "pools": 2, "bottleneck": 4},
}


def sources(folder):
    """Small files of each kind, and how they are prepared."""
    rng = random.Random(0)
    rows = [{"user": f"u{user}", "item": item} for user in range(12) for item in rng.sample(range(30), 6)]
    (folder / "log.csv").write_text("user,item\n" + "".join(f"{row['user']},{row['item']}\n" for row in rows))
    lines = [
        f"{rng.randint(0, 2)} qid:{query} 1:{rng.random()} 2:{rng.random()}\n" for query in range(9) for _ in range(4)
    ]
    (folder / "letor.txt").write_text("".join(lines))
    bags = [f"{rng.randrange(5)} {rng.randrange(4)}:1 {4 + rng.randrange(4)}:2\n" for _ in range(20)]
    (folder / "bags.txt").write_text("20 8 5\n" + "".join(bags))
    texts = [{"text": f"red {rng.choice(['cat', 'dog', 'été'])} sat", "labels": [rng.choice("abc")]} for _ in range(20)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    random_split = {"split": "random", "validation": 0.2, "test": 0.2}
    return {
        "ids": ("interactions", "log.csv", {}),
        "histories": ("interactions", "log.csv", {}),
        "documents": ("letor", "letor.txt", random_split),
        "features": ("xmc", "bags.txt", random_split),
        "words": ("xmc-text", "texts.jsonl", random_split),
    }


@pytest.fixture(scope="module")
def models_written(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for inputs, (kind, file, options) in sources(place).items():
        prepare(kind, place / file, place / f"data-{inputs}", **options)
        dataset = open_dataset(place / f"data-{inputs}")
        torch.manual_seed(0)
        write_model(place / inputs, made(inputs, dataset), SECTIONS[inputs], dataset)
    return place


def made(inputs, dataset):
    known = inspect.signature(MODELS[SECTIONS[inputs]["name"]]).parameters
    return models.create(**SECTIONS[inputs], **{k: v for k, v in model_sizes(dataset).items() if k in known})


@pytest.fixture
def folder(request, models_written, tmp_path):
    """A copy to damage, of the model that a test names."""
    inputs = getattr(request, "param", "ids")
    return shutil.copytree(models_written / inputs, tmp_path / inputs)


def change(folder, arrays=None, **info):
    """Change what a folder says, as someone would who knows how it is made: checksums are mended."""
    for (file, name), tensor in (arrays or {}).items():
        tensors = {key: value.clone() for key, value in load_file(folder / file).items()}
        tensors[name] = tensor(tensors[name]) if callable(tensor) else tensor
        save_file(tensors, folder / file)
    told = json.loads((folder / "model.json").read_text())
    for key, value in info.items():
        told[key] = {**told[key], **value} if isinstance(value, dict) and key != "files" else value
    if "files" not in info:
        told["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in told["files"]}
    (folder / "model.json").write_text(json.dumps(told))


def refused(folder, *messages):
    with pytest.raises(DataError) as caught:
        open_model(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert str(folder) in line
    for message in messages:
        assert message in line


@pytest.mark.parametrize("folder", SECTIONS, indirect=True)
def test_a_folder_gives_back_the_model_and_its_tables(folder, models_written):
    opened, dataset = open_model(folder), open_dataset(models_written / f"data-{folder.name}")
    assert opened.inputs == folder.name
    assert opened.task == dataset.task
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
        refused(folder, file.name, "missing" if file.name == "model.json" else "cannot be read")
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
    refused(folder, "model.safetensors", "of another model")
    change(folder)
    refused(folder, "model.safetensors: holds other weights than model.json describes")


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
    refused(folder, "model.json: was changed by hand or is damaged")
    change(folder, files={name: told["model.safetensors"], "ids.safetensors": "", "seen.safetensors": ""})
    refused(folder, "model.json: was changed by hand or is damaged")


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
    refused(folder, "model.safetensors: holds weights that are no numbers")


@pytest.mark.parametrize("version", [1, 3, 99, "2", None])
def test_versions_that_are_older_or_newer(folder, version):
    change(folder, version=version)
    refused(folder, f"has format version {version!r}", "train again")


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
    told = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**told, **info}))
    refused(folder, "model.json")


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
    refused(folder, "its tables do not fit its model.json")


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
    refused(folder, "its tables do not fit its model.json")


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
    refused(folder, "its tables do not fit its model.json")


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
    refused(folder, "its tables do not fit its model.json")


@pytest.mark.parametrize("folder", ["words"], indirect=True)
@pytest.mark.parametrize("told", [{"width": 0}, {"width": 10**9}, {"width": "9"}, {"size": 5}, {"lowercase": "no"}])
def test_ways_to_read_words_that_are_none(folder, told):
    change(folder, vocabulary=told)
    refused(folder, "its tables do not fit its model.json")


@pytest.mark.parametrize("folder", ["words"], indirect=True)
@pytest.mark.parametrize("words", [b"", b"cat\n", b"\xff\xfe\n" * 20])
def test_vocabularies_that_do_not_fit(folder, words):
    (folder / "vocabulary.txt").write_bytes(words)
    change(folder)
    refused(folder, "its tables do not fit its model.json")


@pytest.mark.parametrize(
    "text",
    ["[" * 10**5, '{"a":' * 10**5, "[1]", "7", "", "\xff", '{"format": "songrank-model"', '{"format": "other"}', "{}"],
)
def test_json_that_describes_nothing(folder, text):
    (folder / "model.json").write_bytes(text.encode("latin-1"))
    refused(folder, "model.json", "expected a folder made by `songrank train`")


def test_a_path_that_is_no_folder(tmp_path):
    refused(tmp_path / "nowhere", "is missing")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "cannot be read")


def test_the_wrong_task_names_the_right_command(folder):
    with pytest.raises(DataError, match=r"holds a model for recommendation, not for search; use `songrank recommend`"):
        open_model(folder).need("search")
