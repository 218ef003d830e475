"""Runs of several real processes are those of one: the same weights, memory, metrics, history, and resumption."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from songrank.data import prepare
from songrank.training.checkpoints import Checkpoints
from tests.processes import run_processes
from tests.training.trainer.sharded_runs import CASES, RESUMED, train, train_on

PROGRAM = Path(__file__).with_name("sharded_runs.py")
USERS, ITEMS = 47, 30


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Users with 1 to 15 items; the first has almost all pairs of its range."""
    place = tmp_path_factory.mktemp("data")
    generator, rows = torch.Generator().manual_seed(0), []
    for user in range(USERS):
        items = torch.randperm(ITEMS, generator=generator)[: 28 if user == 0 else 4 + user % 9]
        rows += [(f"u{user:02}", int(item), time) for time, item in enumerate(items)]
    table = dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True))
    prepare("interactions", table, place / "recommendation")
    labels = {"task": "labelling", "queries": 40, "items": 20, "pairs": 100, "features": 50, "words": 6}
    prepare("synthetic", None, place / "labelling", **labels)
    chosen = torch.randint(9, (40, 7), generator=generator).tolist()
    texts = [{"text": " ".join(f"w{n}" for n in row[2:]), "labels": [f"l{n}" for n in set(row[:2])]} for row in chosen]
    file = place / "texts.jsonl"
    file.write_text("".join(json.dumps(text) + "\n" for text in texts))
    prepare("xmc-text", file, place / "labelling-text", split="random", validation=0.2, test=0.2)
    documents = torch.rand(160, 3, generator=generator)
    query = [number // 4 for number in range(160)]
    lists = {"query": query, "label": (documents[:, 0] * 3).int().tolist(), "weight": [1.0 + q % 3 for q in query]}
    lists |= {f"x{number}": column.tolist() for number, column in enumerate(documents.T)}
    options = {"query_column": "query", "label_column": "label", "weight_column": "weight", "split": "random"}
    prepare("feature-table", lists, place / "search", validation=0.2, test=0.2, **options)
    return place


@pytest.fixture(scope="module")
def alone(data):
    return train(data)


def trained(world, place, *words):
    """The results of each process of a job."""
    place.mkdir()
    ended = run_processes(world, PROGRAM, words[0], place, *words[1:], limit=120)
    assert all(done.returncode == 0 for done in ended), "\n".join(done.stderr[-3000:] for done in ended)
    return [torch.load(place / f"{rank}.pt", weights_only=False) for rank in range(world)]


@pytest.fixture(scope="module", params=[2, 4])
def parts(request, data, tmp_path_factory):
    return trained(request.param, tmp_path_factory.mktemp("results") / "all", data)


def check_equal(one, other):
    assert one["state"].keys() == other["state"].keys()
    for name, value in one["state"].items():
        torch.testing.assert_close(other["state"][name], value, rtol=0, atol=1e-10, equal_nan=True, msg=name)
    assert other["best"] == one["best"]
    for line, own in zip(one["history"], other["history"], strict=True):
        assert line.keys() == own.keys()
        for name, value in line.items():
            assert own[name] == (pytest.approx(value, abs=1e-6) if isinstance(value, float) else value), name


@pytest.mark.parametrize("case", CASES)
def test_several_processes_train_what_one_does(case, alone, parts):
    for part in parts:
        check_equal(alone[case], part[case])


@pytest.mark.parametrize("case", CASES)
def test_shared_weights_have_the_same_bits_on_all_processes_after_every_epoch(case, parts):
    first, *others = (part[case]["shared"] for part in parts)
    assert first
    for other in others:
        for epoch, own in zip(first, other, strict=True):
            assert epoch.keys() == own.keys()
            assert all(torch.equal(epoch[name], own[name]) for name in epoch)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("neumf, song, clip", ("pairs", "memory")),
        ("factors, all items", ("pairs", "memory")),
        ("features", ("pairs", "memory")),
        ("words", ("pairs", "memory")),
        ("history", ("pairs", "memory", "histories")),
        ("sequence", ("memory",)),
        ("lists with weights", ("pairs", "memory")),
    ],
)
def test_a_process_has_the_values_of_its_queries_only(case, names, alone, parts):
    for name in names:
        values = [part[case]["held"][name] for part in parts]
        assert sum(values) == alone[case]["held"][name]
        assert 0 < min(values) <= max(values) < 0.75 * sum(values)


@pytest.mark.parametrize(
    ("case", "tables"),
    [
        ("neumf, song, clip", ["query_product.weight", "query_hidden.weight"]),
        ("factors, sgd", ["query_factors.weight"]),
        ("towers", ["query_encoder.weight"]),
    ],
)
def test_a_process_has_the_rows_of_its_users_only(case, tables, alone, parts):
    values = [part[case]["held"]["rows"] for part in parts]
    assert sum(values) == sum(alone[case]["state"][f"model.{name}"].numel() for name in tables)
    assert min(values) > 0


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    """Checkpoints of two processes after step 4, at which the second was asked to stop, and of one process."""
    place = tmp_path_factory.mktemp("kept")
    for part in trained(2, place / "results", data, place / "2", 4):
        last = {case: 7 if case.endswith("padded") else 5 for case in RESUMED}  # decisions are read later
        assert all(part[case]["stopped"] and 4 <= part[case]["step"] <= last[case] for case in RESUMED)
    train_on(data, place / "1", stop_at=4)
    return place


@pytest.mark.parametrize(("saved", "world"), [(2, 1), (2, 2), (2, 3), (2, 4), (1, 2)])
def test_a_run_resumes_on_any_number_of_processes(saved, world, kept, data, alone, tmp_path):
    shutil.copytree(kept / str(saved), tmp_path / "kept")
    if world == 1:
        parts = [train_on(data, tmp_path / "kept")]
    else:
        parts = trained(world, tmp_path / "results", data, tmp_path / "kept")
    for part in parts:
        for case in RESUMED:
            check_equal(alone[case], part[case])


def test_each_process_writes_its_rows_only(kept):
    folder = next((kept / "2" / "neumf, lazy-adam").iterdir())
    files = {file.name: file.stat().st_size for file in folder.glob("*.safetensors")}
    assert files.keys() == {"tensors.safetensors", "tensors-1.safetensors"}
    whole = next((kept / "1" / "neumf, lazy-adam").iterdir()) / "tensors.safetensors"
    assert sum(files.values()) < 1.3 * whole.stat().st_size


def test_a_damaged_part_is_noticed(kept, tmp_path):
    shutil.copytree(kept / "2" / "lightgcn", tmp_path / "kept")
    file = max(tmp_path.glob("kept/step-*/tensors-1.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    warnings = []
    found = Checkpoints(tmp_path / "kept", warn=warnings.append).latest()
    assert found is None or found[0] < 4
    assert "is damaged (checksum mismatch)" in warnings[0]
