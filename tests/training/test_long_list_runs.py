"""Runs on long lists: parts of a batch give the weights of whole batches, and a lack of memory names the keys."""

import pytest
import torch

from songrank.data import open_dataset, prepare
from songrank.losses.registry import LOSSES
from songrank.training import Run, load_recipe
from songrank.training.run import memory_advice
from songrank.training.trainer import batch_adapters
from songrank.training.trainer.batch_adapters import DocumentAdapter


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    prepare("synthetic", None, folder / "search", task="search", queries=40, items=400, features=6)
    prepare("synthetic", None, folder / "recommendation", queries=60, items=40, pairs=900)
    return folder


def recipe(data, name, *changes):
    short = ["device=cpu", "fine_tuning.epochs=2", "warm_up.epochs=1"]
    return load_recipe(name, [f"data={data / name.replace('sequences', 'recommendation')}", *short, *changes])


def weights(run):
    assert run.finish()
    return {name: value for name, value in run.trainer.model.state_dict().items() if name != "head.bias"}  # no effect


@pytest.mark.parametrize("loss", ["song", "lambdarank"])
def test_a_step_in_parts_of_long_lists_has_the_gradient_of_the_batch(data, tmp_path, monkeypatch, loss):
    def begun(name):
        changes = [f"loss={loss}", "model={name: mlp, hidden: [4]}"]
        return Run.begin(recipe(data, "search", *changes), tmp_path / name)

    whole = begun("whole")
    assert {stage.at_once for stage in whole.trainer.stages} == {None}
    monkeypatch.setattr(batch_adapters, "_DOCUMENTS", 40)
    parts = begun("parts")
    assert {stage.at_once for stage in parts.trainer.stages} != {None}
    torch.testing.assert_close(weights(parts), weights(whole), rtol=1e-4, atol=1e-5)


def test_the_number_of_lists_at_once_follows_from_the_longest(data, monkeypatch):
    dataset = open_dataset(data / "search")
    adapter, batch = DocumentAdapter(dataset, "cpu"), recipe(data, "search").batch
    song, faster = ({name: LOSSES[name].traits} for name in ("song", "faster-song"))
    longest = int(dataset["train"].offsets.diff().amax())
    assert adapter.rows_at_once(batch, song) is None
    monkeypatch.setattr(batch_adapters, "_DOCUMENTS", 2 * longest)
    assert adapter.rows_at_once(batch, song) == 2
    assert adapter.rows_at_once(batch, faster) is None  # needs the whole batch
    assert adapter.rows_at_once(batch.model_copy(update={"length": 10}), song) == 2 * longest // 10
    monkeypatch.setattr(batch_adapters, "_DOCUMENTS", 1)
    assert adapter.rows_at_once(batch, song) == 1


@pytest.mark.parametrize(
    ("name", "changes", "keys"),
    [
        ("search", (), "set batch.length, for example batch.length=1000, reduce batch.queries,"),
        ("search", ("batch.length=50",), "reduce batch.length, for example"),
        ("recommendation", (), "reduce batch.queries or batch.irrelevant, or use a smaller model"),
        ("sequences", (), "reduce batch.queries, batch.irrelevant or model.length, or"),
        (
            "recommendation",
            ("model=ease", "warm_up.epochs=0", "fine_tuning.epochs=0"),
            "use a model without a closed form",
        ),
    ],
)
def test_the_advice_names_keys_of_this_task(data, name, changes, keys):
    found = recipe(data, name, *changes)
    assert memory_advice(found, open_dataset(found.data)).startswith(keys)
