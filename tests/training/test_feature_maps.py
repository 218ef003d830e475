"""Vectors of items and users without training data."""

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from songrank.analysis.ensemble import make_ensemble
from songrank.data import open_dataset, prepare
from songrank.functional.feature_map import FeatureMap
from songrank.serving.export import export_folder
from songrank.serving.open import open_model
from songrank.training import run as runs
from songrank.training.config.recipe_files import load_recipe
from songrank.training.feature_maps import map_features
from songrank.training.run import Run

USERS, ITEMS = 20, 24
SMALL = ("model.dim=4", "fine_tuning.epochs=2", "fine_tuning.min_steps=1", "batch.irrelevant=6", "device=cpu")


def log():
    random = np.random.default_rng(0)
    rows = [(user, item) for user in range(USERS) for item in random.permutation(ITEMS)[:8]]
    return pl.DataFrame(rows, schema=["user", "item"], orient="row")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    items = pl.DataFrame({"item": range(ITEMS + 3), "kind": ["abc"[x % 3] for x in range(ITEMS + 3)]})
    users = pl.DataFrame({"user": range(USERS + 2), "sex": ["mf"[x % 2] for x in range(USERS + 2)]})
    place = tmp_path_factory.mktemp("maps") / "data"
    prepare("interactions", log(), place, items=items, users=users, cold_items=0.1)
    return place


def trained(data, place, recipe="recommendation", *changes):
    found = Run.begin(load_recipe(recipe, [f"data={data}", *SMALL, *changes]), place)
    found.finish()
    return found


MODELS = {
    "matrix-factorisation": ("recommendation",),
    "dot": ("recommendation", "model.scoring=dot", "model.temperature=1"),
    "two-tower": ("recommendation", "model=two-tower", "model.dim=4"),
    "lightgcn": ("recommendation", "model=lightgcn", "model.dim=4"),
    "neumf": ("neumf", "model.hidden=[4]", "warm_up.epochs=0"),
    "sequence": ("sequences", "model.heads=2", "model.blocks=1", "model.length=5", "batch.queries=8"),
    "history": ("histories",),
}


@pytest.mark.parametrize("name", MODELS)
def test_vectors_of_trained_ids_are_those_without_features_and_the_others_are_mapped(data, tmp_path, name, monkeypatch):
    recipe, *changes = MODELS[name]
    found = trained(data, tmp_path / "run", recipe, *changes)
    monkeypatch.setattr(runs, "map_features", lambda *given: {})
    plain = trained(data, tmp_path / "plain", recipe, *changes)
    dataset, able = open_dataset(data), found.trainer.model.capabilities
    one, other = (load_file(run.directory.path / "model.safetensors") for run in (found, plain))
    assert one.keys() == other.keys()
    maps = open_model(tmp_path / "run").maps
    for word, names in (("item", able.item_tables), ("user", able.query_tables)):
        rows = dataset.features[word]
        for table in (table for table in names if table in one):
            torch.testing.assert_close(one[table][rows.trained], other[table][rows.trained], rtol=0, atol=0)
            wanted = maps[table].values(rows)[~rows.trained].view_as(one[table][~rows.trained])
            torch.testing.assert_close(one[table][~rows.trained], wanted)
    for table in one.keys() - {*able.item_tables, *able.query_tables}:
        torch.testing.assert_close(one[table], other[table], rtol=0, atol=0)


def test_vectors_are_fitted_to_those_of_trained_items(data, tmp_path):
    found = trained(data, tmp_path / "run", "recommendation", "model.scoring=dot", "model.temperature=1")
    model, dataset = found.trainer.model, open_dataset(data)
    table = model.item_factors.weight.detach()
    wanted = FeatureMap.fit(dataset.features["item"], table)
    torch.testing.assert_close(map_features(model, dataset)["item_factors.weight"].weight, wanted.weight)


def test_the_model_folder_has_the_encoders_and_exports_without_them(data, tmp_path):
    trained(data, tmp_path / "run")
    folder = open_model(tmp_path / "run")
    assert set(folder.encoders) == {"item", "user"}
    assert set(folder.maps) == {"item_factors.weight", "query_factors.weight"}
    file = export_folder(folder, tmp_path / "model.pt2", "torch")
    scores = torch.export.load(file).module()(torch.arange(USERS + 2))
    torch.testing.assert_close(scores, folder.model.score_all(torch.arange(USERS + 2)).detach())


def test_a_run_without_features_writes_none(tmp_path):
    prepare("interactions", log(), tmp_path / "data")
    trained(tmp_path / "data", tmp_path / "run")
    folder = open_model(tmp_path / "run")
    assert not folder.encoders
    assert not folder.maps
    assert not list((tmp_path / "run").glob("*feature*"))


def test_a_stopped_run_ends_as_one_without_interruption(data, tmp_path):
    whole = trained(data, tmp_path / "whole")
    run = Run.begin(load_recipe("recommendation", [f"data={data}", *SMALL]), tmp_path / "run", save_every=0.0)
    run.tick = run.stop
    assert not run.finish()
    assert Run.resume(tmp_path / "run").finish()
    one, other = (load_file(place / "model.safetensors") for place in (whole.directory.path, tmp_path / "run"))
    for name, table in one.items():
        torch.testing.assert_close(table, other[name], rtol=0, atol=0)


def test_seeds_can_be_combined(data, tmp_path):
    for seed in (0, 1):
        trained(data, tmp_path / str(seed), "recommendation", f"seed={seed}")
    make_ensemble([tmp_path / "0", tmp_path / "1"], tmp_path / "both", device="cpu")
    assert open_model(tmp_path / "both").info["members"] == 2


def test_damaged_maps_are_detected(data, tmp_path):
    trained(data, tmp_path / "run")
    file = tmp_path / "run" / "feature_maps.safetensors"
    changed = bytearray(file.read_bytes())
    changed[-3] ^= 1
    file.write_bytes(changed)
    with pytest.raises(ValueError, match=r"feature_maps\.safetensors: checksum mismatch"):
        open_model(tmp_path / "run")
