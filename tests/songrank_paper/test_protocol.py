"""Runs that share a warm-up, settings chosen on validation, and nothing seen of test before."""

import shutil
from dataclasses import replace

import pytest

from songrank.core.errors import UserError
from songrank_paper.cells import do_cell
from songrank_paper.protocol import TUNING_SEED, SetProtocol
from tests.songrank_paper.small_training import SONG, TINY, done, plan, users


def test_all_methods_of_a_seed_begin_with_one_warm_up(each):
    for seed in (0, 5):
        after = {each.run(method.settings(1)[0], seed).after.key for method in each.methods}
        assert len(after) == 1
        assert after == {each.warm_up(seed).cell.key}


def test_keys_know_the_content_of_the_data_and_neither_place_nor_device(small_users, tmp_path):
    moved = shutil.copytree(small_users, tmp_path / "elsewhere")
    other = users(tmp_path / "other", seed=1)
    keys = [
        SetProtocol(plan(netflix=path), "netflix", TINY).run(SONG, 0).cell.key for path in (small_users, moved, other)
    ]
    assert keys[0] == keys[1] != keys[2]


def test_data_that_was_prepared_anew_is_refused(small_users, tmp_path):
    place = shutil.copytree(small_users, tmp_path / "data")
    cell = SetProtocol(plan(netflix=place), "netflix", TINY).warm_up(0).cell
    shutil.rmtree(place)
    users(place, seed=1)
    with pytest.raises(UserError, match="was prepared again in the meantime"):
        do_cell(cell, tmp_path / cell.key)


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


def test_the_seed_of_tuning_cannot_be_reported(small_users):
    with pytest.raises(UserError, match="reserved for choosing settings"):
        SetProtocol(plan((0, TUNING_SEED), netflix=small_users), "netflix")


def test_what_the_clock_says_is_of_one_device(small_users):
    keys = []
    for device in ("cpu", "cuda"):
        each = SetProtocol(replace(plan(netflix=small_users), device=device), "netflix", TINY)
        timed = each.by_the_clock("SONG", SONG).cell
        assert timed.timed
        keys.append((timed.key, each.run(SONG, 0).cell.key))
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] == keys[1][1]
