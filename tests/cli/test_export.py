"""Exporting as a user does: one file, one line about it, and nothing where it cannot be."""

import hashlib
import json

import numpy as np
import pytest
import torch

from songrank import models
from songrank.data import prepare
from songrank.serving import open_model
from songrank.training.trained_model import model_sizes, write_model

SECTION = {"name": "matrix-factorisation", "dim": 4}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("export")
    dataset = prepare("synthetic", None, place / "data", queries=20, items=30, pairs=200)
    torch.manual_seed(0)
    write_model(place / "model", models.create(**SECTION, **model_sizes(dataset)), SECTION, dataset)
    return place / "model"


def scores(model, users):
    with torch.no_grad():
        return open_model(model).model.score_all(torch.tensor(users)).numpy()


@pytest.mark.parametrize("words", [[], ["--format", "torch"]])
def test_a_file_for_torch(songrank, model, tmp_path, words):
    place = tmp_path / "new" / "model.pt2"
    done = songrank("export", model, "-o", place, *words)
    assert done.returncode == 0, done.stderr
    told = "input query int64 [B], output scores float32 [B, 30]; checked against the model (tolerance 1e-05 of its"
    assert done.stdout.startswith(told)
    assert done.stdout.endswith(f" MB to {place}, ids to {place.with_suffix('.ids.json')}\n")
    assert done.stdout.count("\n") == 1
    answer = torch.export.load(place).module()(torch.tensor([3, 19, 3]))
    np.testing.assert_allclose(answer.detach().numpy(), scores(model, [3, 19, 3]), rtol=1e-5, atol=1e-6)


def test_a_file_for_onnx(songrank, model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    done = songrank("export", model, "-o", tmp_path / "model.onnx", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (answer,) = session.run(["scores"], {"query": np.array([3, 19, 3])})
    np.testing.assert_allclose(answer, scores(model, [3, 19, 3]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "model.bin"], "model.bin: unknown suffix '.bin'; expected .onnx or .pt2"),
        (["-o", "model.onnx", "--format", "torch"], "model.onnx: unknown suffix '.onnx'; expected .pt2"),
        (["-o", "model.pt2", "--format", "coreml"], "format is 'coreml'; expected onnx or torch"),
        (["-o", "there.pt2"], "there.pt2: already exists; pass --overwrite to replace it"),
        (["-o", "folder.pt2"], "folder.pt2: is a directory; expected a file"),
        (["-o", "there.pt2/model.pt2"], "there.pt2/model.pt2: cannot be written"),
    ],
)
def test_what_is_wrong_is_one_line(songrank, model, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.pt2").write_text("what was there")
    (tmp_path / "folder.pt2").mkdir()
    done = songrank("export", model, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder.pt2", "there.pt2"]
    assert (tmp_path / "there.pt2").read_text() == "what was there"


def test_a_file_that_is_given_up_is_replaced(songrank, model, tmp_path):
    (tmp_path / "model.pt2").write_text("what was there")
    assert songrank("export", model, "-o", tmp_path / "model.pt2", "--overwrite").returncode == 0
    torch.export.load(tmp_path / "model.pt2")


def test_ids_that_are_there_are_replaced_only_when_told(songrank, model, tmp_path):
    ids = tmp_path / "model.ids.json"
    ids.write_text("what was there")
    done = songrank("export", model, "-o", tmp_path / "model.pt2")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{ids}: already exists; pass --overwrite" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["model.ids.json"]
    assert songrank("export", model, "-o", tmp_path / "model.pt2", "--overwrite", "-q").returncode == 0
    told, folder = json.loads(ids.read_text()), open_model(model)
    assert (told["users"], told["items"]) == (list(folder.query_ids), list(folder.item_ids))
    assert told["seen"][7] == folder.seen["item"][folder.seen.offsets[7] : folder.seen.offsets[8]].tolist()
    assert told["sha256"] == hashlib.sha256((tmp_path / "model.pt2").read_bytes()).hexdigest()


def test_a_folder_without_a_model(songrank, tmp_path):
    done = songrank("export", tmp_path, "-o", tmp_path / "model.pt2")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "model.json: is missing; expected a run directory written by `songrank train`" in done.stderr
