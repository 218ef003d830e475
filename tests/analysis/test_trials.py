"""A trial: resumed after any end, read when it is finished, failed without an exception, and begun with a warm-up."""

import pytest

from songrank.analysis.trials import best_first, run_trial, warm_up_alone
from songrank.core.errors import DataError
from songrank.data import prepare
from songrank.training.config.recipe_files import load_recipe
from songrank.training.trainer.loop import DivergedError, NoMemoryError

SMALL = ["model.dim=4", "model.hidden=[4]", "batch.irrelevant=10", "warm_up.epochs=1", "fine_tuning.epochs=2"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    data = tmp_path_factory.mktemp("trials") / "data"
    prepare("synthetic", None, data, queries=30, items=40, pairs=300)
    return lambda *changes: load_recipe("quick", [f"data={data}", "device=cpu", *SMALL, *changes])


def test_the_best_come_first_and_of_equal_values_the_earlier():
    assert best_first({"a": 0.1, "b": None, "c": 0.3, "d": 0.3, "e": float("nan")}) == ["c", "d", "a"]


def files(path):
    return {name: (path / name).read_bytes() for name in ("model.safetensors", "metrics.jsonl")}


def stop_at(epoch):
    def opened(run):
        run.observe = lambda line: run.trainer.stop() if line["epoch"] == epoch else None

    return opened


def test_a_stopped_trial_has_no_outcome_and_resumes_bit_exactly(recipe, tmp_path):
    whole = run_trial(recipe(), tmp_path / "whole", ("validation",))
    assert run_trial(recipe(), tmp_path / "stopped", ("validation",), opened=stop_at(1)) is None
    assert run_trial(recipe(), tmp_path / "stopped", ("validation",)) == whole
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    assert list(whole.metrics) == ["validation"]
    assert not (tmp_path / "whole" / "evaluation" / "test.json").exists()


def test_a_finished_trial_is_read_and_not_trained_again(recipe, tmp_path):
    first = run_trial(recipe(), tmp_path / "run", ("validation",))

    def opened(run):
        raise AssertionError("it was opened")

    assert run_trial(recipe(), tmp_path / "run", ("validation",), opened=opened) == first
    with pytest.raises(DataError, match=r"test.json: is missing; it was trained without this split"):
        run_trial(recipe(), tmp_path / "run", ("test",))


def test_a_directory_of_another_recipe_is_rejected(recipe, tmp_path):
    run_trial(recipe(), tmp_path / "run", ())
    with pytest.raises(DataError, match="has a different recipe from its trial"):
        run_trial(recipe("loss.gamma=0.7"), tmp_path / "run", ())
    moved = recipe().model_copy(update={"device": "auto", "data": str(tmp_path / "elsewhere")})
    assert run_trial(moved, tmp_path / "run", ()) is not None  # neither device nor place of the data are the recipe


@pytest.mark.parametrize("kind", [DivergedError, NoMemoryError])
def test_what_is_due_to_the_settings_is_an_outcome(recipe, tmp_path, kind, monkeypatch):
    def fail(run):
        raise kind("lower the learning rate")

    monkeypatch.setattr("songrank.training.run.Run.finish", fail)
    found = run_trial(recipe(), tmp_path / "run", ("validation",))
    assert found.metrics == {}
    assert isinstance(found.error, kind)


@pytest.mark.parametrize("loss", ["song", "bce"])
def test_a_trial_that_begins_with_the_warm_up_of_another_is_the_same_to_the_bit(recipe, tmp_path, loss):
    told = recipe(f"loss={loss}")
    run_trial(told, tmp_path / "whole", ())
    run_trial(warm_up_alone(recipe("loss=song")), tmp_path / "warm-up", ())
    run_trial(told, tmp_path / "after", (), after=tmp_path / "warm-up")
    assert files(tmp_path / "after") == files(tmp_path / "whole")
    with pytest.raises(DataError, match="has no warm-up"):
        run_trial(told, tmp_path / "again", (), after=tmp_path / "nowhere")
