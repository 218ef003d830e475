"""Runs that share a warm-up, settings chosen on validation, and nothing seen of test before."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from songrank.core.errors import UserError
from songrank.data import prepare
from songrank_paper import runs
from songrank_paper.cells import do_cell
from songrank_paper.methods import METHODS, Setting
from songrank_paper.protocol import TUNING_SEED, SetProtocol, waiting
from tests.songrank_paper.small_training import TINY, TINY_LABELS, done, lists, plan, texts, users

SONG = Setting(("loss=song", "loss.gamma=0.3"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return users(tmp_path_factory.mktemp("data") / "users")


@pytest.fixture(scope="module")
def each(small):
    return SetProtocol(plan(movielens_20m=small), "movielens-20m", TINY)


def what_is_kept(cell, folder):
    """All that a run comes to, bit by bit."""
    run = folder / cell.key / "run"
    history = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return load_file(run / "model.safetensors"), history, load_file(run / "evaluation" / "test.safetensors")


def assert_same(one, other):
    assert one[1] == other[1]
    for first, second in ((one[0], other[0]), (one[2], other[2])):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


# ---- the common warm-up


@pytest.mark.parametrize("loss", ["song", "k-song", "gumbel-approx-ndcg"])
def test_a_run_that_begins_with_the_common_warm_up_is_the_run_that_makes_it_itself(each, tmp_path, loss):
    k = ["loss.k=5"] if loss == "k-song" else []
    training = each.run(Setting((f"loss={loss}",)), 3, *k)
    alone = each.cell("alone", training.cell.work, **{**training.cell.options, "after": None})
    done(training.after, tmp_path)
    shared, own = done(training.cell, tmp_path), done(alone, tmp_path)
    assert_same(what_is_kept(training.cell, tmp_path), what_is_kept(alone, tmp_path))
    assert {**shared, "seconds": 0} == {**own, "seconds": 0}
    assert shared["warm_up"][-1][0] == 2
    assert [epoch for epoch, _ in shared["curve"]] == [1, 2, 3]


def test_all_methods_of_a_seed_begin_with_one_warm_up(each):
    for seed in (0, 5):
        after = {each.run(method.settings(1)[0], seed).after.key for method in each.methods}
        assert len(after) == 1
        assert after == {each.warm_up(seed).cell.key}


def test_a_run_without_warm_up_waits_for_none(each):
    training = each.run(SONG, 0, "warm_up.epochs=0")
    assert training.after is None
    assert waiting([training], {}) == [training.cell]


def test_a_warm_up_that_was_lost_is_said_in_one_line(each, tmp_path):
    training = each.run(SONG, 0)
    with pytest.raises(UserError, match="holds no warm-up; delete the cell"):
        do_cell(training.cell, tmp_path / training.cell.key)


# ---- cells that are killed


@pytest.mark.parametrize("lost", [False, True])
def test_a_cell_that_was_killed_goes_on_to_the_same_bits(each, tmp_path, monkeypatch, lost):
    training = each.run(SONG, 1, "batch.irrelevant=all")
    for place in ("whole", "killed"):
        done(training.after, tmp_path / place)
    done(training.cell, tmp_path / "whole")

    def killed_after_one_epoch(run, metric):
        def observe(line):
            if line["stage"] == "fine-tuning":
                raise KeyboardInterrupt

        return observe

    with monkeypatch.context() as patch:
        patch.setattr(runs, "also_watch", killed_after_one_epoch)
        with pytest.raises(KeyboardInterrupt):
            done(training.cell, tmp_path / "killed")
    if lost:  # killed after the run was begun, before it was put behind its warm-up
        shutil.rmtree(tmp_path / "killed" / training.cell.key / "run" / "checkpoints")
    done(training.cell, tmp_path / "killed")
    assert_same(what_is_kept(training.cell, tmp_path / "whole"), what_is_kept(training.cell, tmp_path / "killed"))


def test_a_cell_that_was_killed_after_its_run_is_read_from_its_files(each, tmp_path):
    training = each.run(SONG, 1)
    done(training.after, tmp_path)
    first = done(training.cell, tmp_path)
    place = tmp_path / training.cell.key
    (place / "result.json").unlink()
    weights = (place / "run" / "model.safetensors").stat().st_mtime_ns
    assert done(training.cell, tmp_path) == first
    assert (place / "run" / "model.safetensors").stat().st_mtime_ns == weights


# ---- what a cell depends on


def test_keys_know_the_content_of_the_data_and_neither_place_nor_device(small, tmp_path):
    moved = shutil.copytree(small, tmp_path / "elsewhere")
    other = users(tmp_path / "other", seed=1)
    keys = [SetProtocol(plan(netflix=path), "netflix", TINY).run(SONG, 0).cell.key for path in (small, moved, other)]
    assert keys[0] == keys[1] != keys[2]


def test_data_that_was_prepared_anew_is_refused(small, tmp_path):
    place = shutil.copytree(small, tmp_path / "data")
    cell = SetProtocol(plan(netflix=place), "netflix", TINY).warm_up(0).cell
    shutil.rmtree(place)
    users(place, seed=1)
    with pytest.raises(UserError, match="was prepared anew"):
        do_cell(cell, tmp_path / cell.key)


# ---- tuning


@pytest.mark.parametrize("task", METHODS)
def test_every_method_has_as_many_different_settings(task, tmp_path):
    make, name = {
        "recommendation": (users, "movielens-1m"),
        "search": (lists, "mq2008"),
        "labelling": (texts, "bibtex"),
    }[task]
    for quick, budget in ((True, 2), (False, 6)):
        settings = plan(**{name: make(tmp_path / str(quick))})
        each = SetProtocol(type(settings)(quick=quick, data=settings.data), name)
        for method in each.methods:
            tried = each.tuning(method)
            assert len({training.cell.key for training in tried.values()}) == budget
            assert {training.cell.options["recipe"]["seed"] for training in tried.values()} == {TUNING_SEED}
            recipes = [training.cell.options["recipe"] for training in tried.values()]
            assert all(recipe["loss"]["name"] == method.name for recipe in recipes)
            assert all(recipe["fine_tuning"]["reset_head"] for recipe in recipes)
            assert len({recipe["warm_up"]["epochs"] for recipe in recipes}) == 1
            stages = [recipe[stage] for recipe in recipes for stage in ("warm_up", "fine_tuning")]
            assert not any(stage["average"] or stage["item_decay_power"] for stage in stages)
            if name == "movielens-1m" and not quick:  # the paper's schedule, whatever the shipped recipe has
                schedules = [(recipe["fine_tuning"]["epochs"], recipe["fine_tuning"]["decay"]) for recipe in recipes]
                assert all(schedule == (180, {"90": 0.25}) for schedule in schedules)
                assert all(recipe["batch"]["relevant"] == 20 for recipe in recipes)


def test_test_is_not_even_computed_while_settings_are_chosen(each, tmp_path):
    for training in each.tuning(each.method("song")).values():
        for cell in (training.after, training.cell):
            result = done(cell, tmp_path)
            assert set(result["metrics"]) == {"validation"}
            assert {file.name for file in (tmp_path / cell.key / "run" / "evaluation").iterdir()} == {
                "validation.json",
                "validation.safetensors",
            }


def test_the_best_on_validation_is_chosen_and_run_with_the_reported_seeds(each):
    method = each.method("lambdarank")
    first, second = each.tuning(method).values()
    assert each.chosen(method, {first.cell.key: figure(0.3)}) is None
    assert each.reported(method, {first.cell.key: figure(0.3)}) == []
    for values, expected in (((0.3, 0.4), 1), ((0.4, 0.3), 0), ((0.3, 0.3), 0), ((None, 0.1), 1), ((None, None), 0)):
        found = dict(zip((first.cell.key, second.cell.key), map(figure, values), strict=True))
        assert each.chosen(method, found) == method.settings(2)[expected]
        reported = [training.cell.options["recipe"] for training in each.reported(method, found)]
        assert [recipe["seed"] for recipe in reported] == [0, 1]
        assert {recipe["loss"]["sigma"] for recipe in reported} == {(1.0, 0.3)[expected]}


def figure(value):
    return {"diverged": "NaN"} if value is None else {"metrics": {"validation": {"ndcg@20": value}}}


def test_the_seed_of_tuning_cannot_be_reported(small):
    with pytest.raises(UserError, match="kept for choosing settings"):
        SetProtocol(plan((0, TUNING_SEED), netflix=small), "netflix")


def test_a_run_that_diverges_says_so_and_ends_nothing(each, tmp_path):
    training = each.run(Setting(("loss=song",), rate=1e20), 0)
    done(training.after, tmp_path)
    assert "not finite" in done(training.cell, tmp_path)["diverged"]


@pytest.mark.parametrize("work", ["runs:train", "peer_runs:train_libauc"])
def test_a_run_whose_warm_up_diverged_has_diverged(small, tmp_path, work):
    each = SetProtocol(plan(netflix=small), "netflix", (*TINY, "warm_up.learning_rate=1.0e+20"))
    training = each.run(SONG, 0, work=f"songrank_paper.{work}")
    assert "not finite" in done(training.after, tmp_path)["diverged"]
    assert done(training.cell, tmp_path)["diverged"].startswith("its warm-up diverged: ")


def test_epochs_by_the_clock_that_diverge_say_so(each, tmp_path):
    cell = each.by_the_clock("SONG", Setting(("loss=song",), rate=1e20)).cell
    assert "not finite" in done(cell, tmp_path)["diverged"]


def test_what_the_clock_says_is_of_one_device(small):
    keys = []
    for device in ("cpu", "cuda"):
        each = SetProtocol(replace(plan(netflix=small), device=device), "netflix", TINY)
        timed = each.by_the_clock("SONG", SONG).cell
        assert timed.timed
        keys.append((timed.key, each.run(SONG, 0).cell.key))
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] == keys[1][1]


# ---- recipes


def test_labels_are_sampled_only_for_losses_over_all_pairs_of_a_long_list(tmp_path):
    options = {"task": "labelling", "queries": 90, "items": 150, "pairs": 300, "features": 40, "words": 8}
    prepare("synthetic", None, tmp_path / "long", **options)
    for path, sampled in ((tmp_path / "long", {"approx-ndcg", "neural-ndcg"}), (texts(tmp_path / "short"), set())):
        each = SetProtocol(plan(eurlex_4k=path), "eurlex-4k", TINY_LABELS)
        recipes = [each.run(method.settings(1)[0], 0).cell.options["recipe"] for method in each.methods]
        assert {recipe["loss"]["name"] for recipe in recipes if recipe["batch"]["irrelevant"] != "all"} == sampled
        assert each.warm_up(0).cell.options["recipe"]["batch"]["irrelevant"] == "all"
        assert any("given a sample" in remark for remark in each.remarks(each.methods)) == bool(sampled)
