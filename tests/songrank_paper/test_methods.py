"""Methods and the settings that are tried."""

import pytest

from songrank.data import prepare
from songrank_paper.methods import METHODS
from songrank_paper.protocol import TUNING_SEED, SetProtocol
from tests.songrank_paper.small_training import TINY_LABELS, lists, plan, texts, users


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
            assert not any(stage["ema_decay"] or stage["item_decay_power"] for stage in stages)
            if name == "movielens-1m" and not quick:  # the paper's schedule, whatever the shipped recipe has
                schedules = [(recipe["fine_tuning"]["epochs"], recipe["fine_tuning"]["decay"]) for recipe in recipes]
                assert all(schedule == (180, {"90": 0.25}) for schedule in schedules)
                assert all(recipe["batch"]["relevant"] == 20 for recipe in recipes)


def test_labels_are_sampled_only_for_losses_over_all_pairs_of_a_long_list(tmp_path):
    options = {"task": "labelling", "queries": 90, "items": 150, "pairs": 300, "features": 40, "words": 8}
    prepare("synthetic", None, tmp_path / "long", **options)
    for path, sampled in ((tmp_path / "long", {"approx-ndcg", "neural-ndcg"}), (texts(tmp_path / "short"), set())):
        each = SetProtocol(plan(eurlex_4k=path), "eurlex-4k", TINY_LABELS)
        recipes = [each.run(method.settings(1)[0], 0).cell.options["recipe"] for method in each.methods]
        assert {recipe["loss"]["name"] for recipe in recipes if recipe["batch"]["irrelevant"] != "all"} == sampled
        assert each.warm_up(0).cell.options["recipe"]["batch"]["irrelevant"] == "all"
        assert any("use a sample" in remark for remark in each.remarks(each.methods)) == bool(sampled)
