"""The same bits from the same seed: on a CPU always, on a GPU where a recipe asks for it."""

import os

import pytest
import torch

from songrank.analysis.ensemble import make_ensemble
from songrank.analysis.finished_runs import group_runs, read_run
from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.losses.registry import LOSSES
from songrank.training.build import make_trainer
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory
from songrank.training.trainer import captured_step
from songrank.training.trainer.determinism import deterministic_algorithms

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def settings():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        os.environ.get(WORKSPACE),
    )


@pytest.mark.parametrize("workspace", [None, ":16:8"])
def test_it_holds_within_and_all_is_as_before_afterwards(workspace, monkeypatch):
    monkeypatch.delenv(WORKSPACE, raising=False)
    if workspace is not None:
        monkeypatch.setenv(WORKSPACE, workspace)
    before = settings()
    with deterministic_algorithms(wanted=False):
        assert settings() == before
    with deterministic_algorithms():
        assert settings() == (True, False, False, workspace or ":4096:8")
    assert settings() == before
    with pytest.raises(KeyError), deterministic_algorithms():
        raise KeyError
    assert settings() == before


def test_an_operation_that_has_no_order_is_one_line():
    what = "torch has no deterministic put_ on this GPU; start again with deterministic=false"
    with pytest.raises(UserError, match=f"^deterministic is true, but {what}$"), deterministic_algorithms():
        torch.zeros(3).put_(torch.tensor([1]), torch.ones(1))


def test_cublas_that_was_used_before_is_one_line_and_other_errors_are_left_alone():
    what = f"this process already used cuBLAS; set {WORKSPACE}=:4096:8 before Python starts"
    with pytest.raises(UserError, match=f"^deterministic is true, but {what}$"), deterministic_algorithms():
        raise RuntimeError(f"not deterministic because it uses CuBLAS\nset {WORKSPACE}=:4096:8 or {WORKSPACE}=:16:8")
    with pytest.raises(RuntimeError, match="something else"), deterministic_algorithms():
        raise RuntimeError("something else")


def test_a_workspace_that_promises_no_order_is_one_line(monkeypatch):
    monkeypatch.setenv(WORKSPACE, ":4096:2:16:8")
    before, what = settings(), f"^deterministic is true, but {WORKSPACE} is ':4096:2:16:8'; expected :4096:8 or :16:8, "
    with pytest.raises(UserError, match=what), deterministic_algorithms():
        pass
    assert settings() == before


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Few items and many, lists of documents, and labels."""
    place = tmp_path_factory.mktemp("sets")
    made = {
        "few": {"queries": 200, "items": 60, "pairs": 3000},
        "many": {"queries": 200, "items": 5000, "pairs": 6000},
        "lists": {"task": "search", "queries": 40, "items": 400},
        "labels": {"task": "labelling", "queries": 60, "items": 40},
    }
    return {name: prepare("synthetic", None, place / name, **options) for name, options in made.items()}


def recipe(model, batch, loss="song", **more):
    return Recipe.read(
        {
            "data": "x",
            "model": model,
            "batch": batch,
            "warm_up": {"epochs": 1},
            "loss": {"name": loss, **({"k": 20} if loss.endswith("k-song") else {})},
            "fine_tuning": {"epochs": 2, "learning_rate": 1e-3, **more},
            "validation": {"every": 0},
            "device": DEVICE,
            "deterministic": True,
        }
    )


def assert_repeats(what, dataset):
    runs = [make_trainer(what, dataset) for _ in range(2)]
    for run in runs:
        run.run()
    one, other = (run.model.state_dict() for run in runs)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.are_deterministic_algorithms_enabled()


NEUMF = {"name": "neumf", "dim": 16, "dropout": 0.2}
IDS = {"queries": 64, "relevant": 5, "irrelevant": 30}


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_repeats_to_the_bit(loss, sets):
    assert_repeats(recipe(NEUMF, IDS, loss), sets["few"])


@pytest.mark.parametrize(
    ("data", "model", "batch"),
    [
        ("few", {"name": "neumf", "hidden": [16, 8]}, IDS),
        ("many", NEUMF, IDS),
        ("few", {"name": "matrix-factorisation"}, IDS),
        ("many", {"name": "matrix-factorisation"}, IDS),
        ("many", {"name": "two-tower"}, IDS),
        ("few", {"name": "matrix-factorisation", "scoring": "cosine", "learn_temperature": True}, IDS),
        ("many", {"name": "matrix-factorisation", "scoring": "cosine", "temperature": 0.2}, IDS),
        ("few", {"name": "lightgcn"}, IDS),
        ("many", {"name": "lightgcn", "scoring": "cosine", "temperature": 0.2}, IDS),
        ("few", {"name": "sequence", "dim": 16, "length": 10}, {"queries": 64, "irrelevant": "all"}),
        ("few", {"name": "history"}, {"queries": 64, "irrelevant": 20}),
        ("lists", {"name": "context-aware", "dim": 16}, {"queries": 8, "length": "all"}),
        ("lists", {"name": "mlp"}, {"queries": 8, "length": 10}),
        ("labels", {"name": "label-mlp", "hidden": [16]}, {"queries": 16, "relevant": "all", "irrelevant": "all"}),
    ],
)
def test_every_model_repeats_to_the_bit(data, model, batch, sets):
    assert_repeats(recipe(model, batch), sets[data])


@pytest.mark.parametrize("more", [{"optimiser": "lazy-adam"}, {"item_decay_power": 1.0, "ema_decay": 0.9}])
def test_every_optimiser_repeats_to_the_bit(more, sets):
    assert_repeats(recipe(NEUMF, IDS, **more), sets["many"])


def test_it_is_no_other_method(sets, tmp_path):
    what = recipe(NEUMF, IDS).model_copy(update={"data": str(sets["few"].path)})
    for seed, deterministic in ((0, False), (1, True)):
        told = what.model_copy(update={"seed": seed, "deterministic": deterministic})
        assert Run.begin(told, tmp_path / str(seed), splits=("test",)).finish()
    (method,) = group_runs([read_run(tmp_path / str(seed), "test") for seed in (0, 1)])
    assert [run.seed for run in method.runs] == [0, 1]


@pytest.mark.parametrize(("word", "device"), [(True, "cuda"), (False, "cuda"), (True, "cpu")])
def test_it_holds_in_steps_and_evaluations_where_the_recipe_asks_and_a_gpu_computes(word, device, sets):
    """The device is a name here, so that this fails without a GPU too."""
    seen = []
    what = recipe(NEUMF, IDS).model_copy(update={"deterministic": word, "device": "cpu"})
    trainer = make_trainer(what, sets["few"], tick=lambda: seen.append(torch.are_deterministic_algorithms_enabled()))
    trainer.device = torch.device(device)
    trainer.run()
    assert {*seen} == {word and device == "cuda"}
    seen.clear()
    trainer.adapter.evaluate = lambda *_, **more: seen.append(torch.are_deterministic_algorithms_enabled())
    trainer.evaluate("test")
    assert seen == [word and device == "cuda"]


def test_a_run_that_cannot_be_has_failed_and_says_how_to_begin_again(sets, tmp_path, monkeypatch):
    what = recipe(NEUMF, IDS).model_copy(update={"data": str(sets["few"].path), "device": "cpu"})
    run = Run.begin(what, tmp_path / "run")
    run.trainer.device = torch.device("cuda")
    monkeypatch.setattr(run.trainer, "tick", lambda: torch.zeros(3).put_(torch.tensor([1]), torch.ones(1)))
    with pytest.raises(UserError, match="start again with deterministic=false$"):
        run.finish()
    notes = run.directory.notes()
    assert (notes["status"], notes["error"][:21]) == ("failed", "deterministic is true")


def test_an_ensemble_repeats_only_where_all_its_runs_do(sets, tmp_path):
    for seed, word in enumerate((True, True, False)):
        told = {"data": str(sets["few"].path), "seed": seed, "deterministic": word}
        assert Run.begin(recipe(NEUMF, IDS).model_copy(update=told), tmp_path / str(seed)).finish()
    for members, expected in (((0, 1), True), ((0, 2), False), ((2, 0), False)):
        make_ensemble([tmp_path / str(seed) for seed in members], tmp_path / "all", overwrite=True)
        assert RunDirectory(tmp_path / "all").recipe().deterministic is expected


def test_no_loss_is_compiled_then(sets, monkeypatch):
    monkeypatch.setattr(captured_step, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(captured_step.kernels, "installed", lambda: True)
    monkeypatch.setattr(captured_step, "_compiled", lambda loss, warn: "compiled")
    trainer = make_trainer(recipe(NEUMF, IDS).model_copy(update={"device": "cpu"}), sets["few"])
    stage = trainer.stages[0]
    parts = (trainer.model, trainer.adapter, stage, stage.make_optimiser(trainer.model), trainer._values, "float32")
    assert captured_step.CapturedStep(*parts, warn=print).loss == "compiled"
    with deterministic_algorithms():
        assert captured_step.CapturedStep(*parts, warn=print).loss is stage.loss
