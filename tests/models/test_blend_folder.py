"""The model folder of a blend: written and read again, and whatever is wrong with one in a single line."""

import json
import math
import resource

import pytest
import torch

from songrank import models
from songrank.core.errors import DataError
from songrank.data import open_dataset
from songrank.io.json_files import read_json, write_json
from songrank.models.blend_folder import blend_models
from songrank.models.model_folder import save_model
from songrank.serving import open_model
from songrank.training.trained_model import model_sizes, write_model
from tests.models.small_folders import SECTIONS, change, refused

FACTORS = {"name": "matrix-factorisation", "dim": 4}
HISTORY = {"name": "history", "dim": 4, "length": 5}


@pytest.fixture
def folder(models_written, tmp_path):
    """A blend of three models, of ids, sequences and histories, of which the last reads most items."""
    dataset = open_dataset(models_written / "data-ids")
    sizes = model_sizes(dataset)
    made = models.create(**HISTORY, num_items=sizes["num_items"])
    write_model(tmp_path / "history", made, HISTORY, dataset)
    write_model(tmp_path / "factors", models.create(**FACTORS, **sizes), FACTORS, dataset)
    folders = [open_model(path) for path in (tmp_path / "factors", models_written / "histories", tmp_path / "history")]
    save_model(blend_models(folders, [0.5, 0.2, 0.3]), tmp_path / "whole")
    return tmp_path / "whole"


def test_a_blend_is_read_as_it_was_written(folder, models_written, tmp_path):
    opened = open_model(folder)
    assert (opened.task, opened.inputs) == ("recommendation", "users")
    assert repr(opened) == f"ModelFolder({str(folder)!r}, task='recommendation', model='blend')"
    assert not opened.model.training
    assert opened.model.weights == (0.5, 0.2, 0.3)
    assert int(opened.histories.lengths.max()) == 5
    query = opened.queries(torch.arange(4))
    assert query.history.shape[1] == 5
    parts = [open_model(path) for path in (tmp_path / "factors", models_written / "histories", tmp_path / "history")]
    with torch.no_grad():
        for member, part in zip(opened.model.members, parts, strict=True):
            inputs = query.id if part.inputs == "ids" else query.history
            assert torch.equal(member.score_all(inputs), part.model.score_all(part.queries(torch.arange(4))))
    save_model(opened, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def members(folder, number, **changes):
    told = json.loads((folder / "model.json").read_text())["model"]["members"]
    told[number] = {**told[number], **changes}
    return {"members": told}


@pytest.mark.parametrize(
    "changes",
    [
        {"weight": 0.6},
        {"weight": -0.5},
        {"weight": None},
        {"weight": "0.5"},
        {"weight": True},
        {"weight": math.nan},
        {"members": 2},
        {"members": 10**9},
        {"model": {"name": "history", "dim": 4}},
        {"model": {"name": "mlp", "hidden": []}, "sizes": {"num_features": 2}},
        {"model": {"name": "matrix-factorisation", "dim": 10**15}},
        {"model": {"name": "matrix-factorisation", "dim": "four"}},
        {"model": {"name": "os.system"}},
        {"model": None},
        {"sizes": {"num_queries": 12, "num_items": 10**12}},
        {"sizes": {"num_queries": 10**12}},
        {"sizes": None},
    ],
)
def test_invalid_members_are_rejected_without_memory(folder, changes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    change(folder, model=members(folder, 0, **changes))
    refused(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB


@pytest.mark.parametrize("parts", [None, [], {}, "abc", [None], [3], [{}] * 10_000])
def test_an_invalid_list_of_members_is_rejected(folder, parts):
    change(folder, model={"members": parts})
    refused(folder, "model.json: describes an invalid model")


def test_a_blend_within_a_blend_is_rejected(folder, models_written):
    inner = {"name": "blend", "members": []}
    change(folder, model=members(folder, 0, model=inner))
    refused(folder, "a blend within a blend")
    with pytest.raises(DataError, match="is a blend; pass the runs that it combines"):
        blend_models([open_model(models_written / "ids"), *_opened(folder)], [0.5, 0.5])


def _opened(folder):
    info = read_json(folder / "model.json")
    info["model"]["members"][0]["model"] = FACTORS
    write_json(folder / "model.json", info)
    return [open_model(folder)]


@pytest.mark.parametrize("inputs", ["ids", "histories", "words", "planets", None])
def test_another_input_is_rejected(folder, inputs):
    change(folder, inputs=inputs)
    refused(folder)


def test_models_of_other_data_are_not_blended(models_written):
    ids, features, words = (open_model(models_written / name) for name in ("ids", "features", "words"))
    for other in (features, words):
        with pytest.raises(DataError, match="task, input or ids differ from"):
            blend_models([ids, other], [0.5, 0.5])
    assert SECTIONS["features"]["name"] == "label-mlp"
    with pytest.raises(DataError, match="task, input or ids differ from"):
        blend_models([features, words], [0.5, 0.5])
