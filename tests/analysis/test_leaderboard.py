"""A leaderboard trains each method once within its time, keeps finished runs, and compares all on the same lists."""

import json
import math

import pytest

from songrank.analysis import leaderboard
from songrank.analysis.finished_runs import read_run
from songrank.analysis.leaderboard import ENTRIES, REFERENCE, Entry, entries_for, make_leaderboard
from songrank.baselines import measure
from songrank.core.errors import UserError
from songrank.data import open_dataset, prepare
from songrank.metrics.comparison import paired_difference
from songrank.training.config.recipe_files import load_recipe

SMALL = ("model.dim=8", "batch.queries=16", "batch.irrelevant=20", "fine_tuning.epochs=4", "validation.every=2")
METHODS = (
    Entry("popularity", "popularity", None, random=False),
    Entry("ease", "EASE", "ease", random=False),
    Entry("mf", "matrix factorisation", "recommendation", SMALL),
)
_FAR = ("warm_up.learning_rate=1e29", "warm_up.epochs=4")
DIVERGING = Entry("diverging", "diverging", "neumf", (*SMALL, *_FAR))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("leaderboard") / "set"
    return prepare("synthetic", None, place, queries=120, items=50, pairs=2000).path


@pytest.fixture
def made(data, tmp_path, monkeypatch):
    """Make a leaderboard of these entries; the lines it says are in ``made.said``."""

    def make(*entries, data=data, **more):
        monkeypatch.setitem(ENTRIES, "recommendation", entries or METHODS)
        make.said = []
        return make_leaderboard(data, tmp_path / "board", say=make.said.append, **{"budget": 60, **more})

    return make


def test_methods_are_compared_with_ease_on_the_same_users(made, data, tmp_path):
    found = made(metrics=["recall@5", "ndcg@10"])
    values = {path: read_run(tmp_path / "board" / path).per_query["recall@5"] for path in ("ease-0", "mf-0")}
    expected = paired_difference(values["mf-0"], values["ease-0"])
    gap = found.comparison.differences["matrix factorisation"]["recall@5"]
    assert (gap.mean, gap.low, gap.high) == pytest.approx((expected.mean, expected.low, expected.high))
    popular = measure("popularity", open_dataset(data), metrics=["recall@5"]).evaluation.values["recall@5"]
    assert found.comparison.summaries["popularity"]["recall@5"].mean == pytest.approx(popular)
    means = [found.comparison.summaries[method.label]["recall@5"].mean for method in found.comparison.methods]
    assert means == sorted(means, reverse=True)
    assert found.comparison.baseline.label == "EASE"
    assert set(found.seconds) == {"EASE", "matrix factorisation"}
    assert found.comparison.metrics == ["recall@5", "ndcg@10"]
    assert made.said[0].startswith("1 run with up to 60 s of training each")


def test_finished_runs_are_kept_and_changed_ones_are_trained_again(made, tmp_path):
    def trained():
        return {path.parent.name: path.stat().st_mtime_ns for path in (tmp_path / "board").glob("*/model.json")}

    made()
    first = trained()
    made(seeds=(0, 1))
    second = trained()
    assert {name: second[name] for name in first} == first
    assert second.keys() - first.keys() == {"mf-1"}
    made(budget=50)
    third = trained()
    assert all(third[name] > second[name] for name in first)
    assert any(
        line == "mf-0: trained again, since the recipe, the budget or the data set has changed" for line in made.said
    )


def test_a_stopped_run_is_resumed(made, tmp_path):
    long = Entry(
        "mf", "matrix factorisation", "recommendation", (*SMALL, "fine_tuning.epochs=30", "validation.patience=null")
    )
    with pytest.raises(KeyboardInterrupt):
        made(METHODS[1], long, stopped=lambda stop: stop())
    told = json.loads((tmp_path / "board" / "ease-0" / "run.json").read_text())
    assert told["status"] == "stopped"
    stops = []

    def stop_the_second(stop):
        stops.append(stop)
        if len(stops) == 2:
            stop()

    with pytest.raises(KeyboardInterrupt):
        made(METHODS[1], long, stopped=stop_the_second)
    place = tmp_path / "board" / "mf-0"
    assert json.loads((place / "run.json").read_text())["status"] == "stopped"
    made(METHODS[1], long)
    steps = [json.loads(line)["epoch"] for line in (place / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 31))


def test_a_method_that_fails_is_left_out(made):
    found = made(METHODS[1], DIVERGING)
    assert [method.label for method in found.comparison.methods] == ["EASE"]
    assert any(line.startswith("diverging-0: failed and is left out (") for line in made.said)
    with pytest.raises(UserError, match="NaN or infinite"):
        made(METHODS[1], DIVERGING, methods=["diverging"])


def test_what_cannot_be_compared_is_one_line(made, data, tmp_path):
    with pytest.raises(UserError, match="method is 'eas'; expected some of popularity, ease, mf"):
        made(methods=["eas"])
    with pytest.raises(UserError, match="baselines only"):
        made(methods=["popularity"])
    table = {"user": [0, 0, 1, 1], "item": [0, 1, 1, 2]}
    whole = prepare("interactions", table, tmp_path / "whole", split="none")
    with pytest.raises(UserError, match="has no test split; found train"):
        made(data=whole.path)
    with pytest.raises(UserError, match="metric"):
        made(metrics=["nonsense"])
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize("task", list(ENTRIES))
def test_the_methods_of_a_task_are_valid_recipes(task, data):
    names = [entry.name for entry in ENTRIES[task]]
    assert len(set(names)) == len(names)
    assert REFERENCE[task] in names
    for entry in ENTRIES[task]:
        if entry.recipe is not None:
            load_recipe(entry.recipe, [f"data={data}", *entry.changes, *entry.on_a_cpu])


def test_ials_needs_its_package(data, monkeypatch):
    monkeypatch.setattr(leaderboard, "find_spec", lambda name: None)
    dataset = open_dataset(data)
    assert "ials" not in [entry.name for entry in entries_for(dataset)]
    with pytest.raises(UserError, match="needs implicit"):
        entries_for(dataset, ["ials", "ease"])


def test_the_time_of_a_run_is_limited(made):
    endless = (*SMALL, "fine_tuning.epochs=100000", "validation.patience=null", "validation.every=100000")
    found = made(METHODS[1], Entry("mf", "endless", "recommendation", endless), budget=1.0)
    assert found.seconds["endless"] < 20
    assert not math.isnan(found.comparison.summaries["endless"]["ndcg@10"].mean)
