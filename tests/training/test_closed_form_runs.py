"""Runs of models that are fitted in closed form: the run directory, the choice of λ, stops and contradictions."""

import json

import pytest

from songrank.analysis.finished_runs import group_runs, read_run
from songrank.core.errors import UserError
from songrank.data import prepare
from songrank.metrics import evaluate_catalogue
from songrank.metrics.catalogue import some_queries
from songrank.serving.open import open_model
from songrank.training import Run, load_recipe
from songrank.training.config.recipe import Recipe


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare("synthetic", None, tmp_path_factory.mktemp("set") / "data", queries=60, items=80, pairs=900)


def recipe(data, *changes):
    return load_recipe("ease", [f"data={data.path}", "device=cpu", *changes])


def lines(run):
    return [json.loads(line) for line in (run.directory.path / "metrics.jsonl").read_text().splitlines()]


def test_a_run_is_written_like_any_other(data, tmp_path):
    seen = []
    run = Run.begin(recipe(data), tmp_path / "run", observe=seen.append, curves=True)
    assert run.finish()
    assert lines(run) == seen == run.trainer.at.history
    *trials, last = lines(run)
    assert [line["stage"] for line in trials] == ["choice of options"] * 8
    assert [line["epoch"] for line in trials] == list(range(1, 9))
    best = max(trials, key=lambda line: line["validation ndcg@10"])
    assert last["stage"] == "closed form"
    assert last["regularisation"] == best["regularisation"]
    assert last["validation ndcg@10"] == run.results["validation"].values["ndcg@10"] == run.trainer.at.best
    assert run.directory.notes()["status"] == "finished"
    assert sorted(run.results) == ["test", "validation"]
    assert open_model(run.directory.path).inputs == "histories"
    assert run.trainer.better_before() == ""
    (method,) = group_runs([read_run(run.directory.path, "test")])
    assert method.label == "ease"


def test_a_given_regularisation_is_fitted_once(data, tmp_path):
    run = Run.begin(recipe(data, "model.regularisation=70", "model.neighbours=5"), tmp_path / "run")
    assert run.finish()
    (line,) = lines(run)
    assert line["regularisation"] == 70
    assert open_model(run.directory.path).model.neighbours == 5


def test_without_validation_the_default_is_used(data, tmp_path):
    run = Run.begin(recipe(data, "validation.every=0"), tmp_path / "run")
    assert run.finish()
    (line,) = lines(run)
    assert line["regularisation"] == 120
    assert not any(name.startswith("validation") for name in line)


def test_a_stopped_run_is_fitted_again(data, tmp_path):
    run = Run.begin(recipe(data), tmp_path / "run", tick=lambda: run.trainer.stop())
    assert not run.finish()
    assert run.directory.notes()["status"] == "stopped"
    again = Run.resume(tmp_path / "run")
    assert again.finish()
    other = Run.begin(recipe(data), tmp_path / "other")
    assert other.finish()
    assert lines(again) == lines(other)
    assert again.results["test"].values == other.results["test"].values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fine_tuning.epochs=5", "fine_tuning.epochs is 5; expected 0: model 'ease' is fitted in closed form"),
        ("warm_up.epochs=1", "warm_up.epochs is 1; expected 0: model 'ease' is fitted in closed form"),
        ("loss=bpr", "loss is 'bpr'; expected none: model 'ease' is fitted in closed form, without a loss"),
        ("model.regularisation=-1", r"model.regularisation is -1.0; expected a number in \(0, inf\)"),
        ("model.neighbours=some", "model.neighbours is 'some'; expected 'auto', 'all' or a whole number"),
    ],
)
def test_contradictions_are_rejected_in_one_line(data, change, message):
    with pytest.raises(UserError, match=message) as caught:
        recipe(data, change)
    assert "\n" not in str(caught.value)


def test_other_models_need_epochs():
    values = {"data": "x", "model": "neumf", "warm_up": {"epochs": 0}, "fine_tuning": {"epochs": 0}}
    with pytest.raises(UserError, match="at least one epoch"):
        Recipe.read(values)


def test_a_part_of_the_queries_keeps_its_lists(data):
    targets = data.relevance("validation")
    part = some_queries(targets, 7)
    kept = (part.num_relevant > 0).nonzero().squeeze(1)
    assert len(kept) == 7
    scores = lambda query: (query.unsqueeze(1) * 7 + 13 * part.indptr.new_tensor(range(80)) % 31).float()  # noqa: E731
    whole, few = (evaluate_catalogue(scores, one, metrics="ndcg@10").per_query["ndcg@10"] for one in (targets, part))
    assert whole[kept].tolist() == few[kept].tolist()
    assert some_queries(targets, 10**6) is targets
