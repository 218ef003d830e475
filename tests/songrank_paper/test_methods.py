"""Methods and the settings that are tried."""

import pytest

from songrank.data import prepare
from songrank_paper.methods import METHODS, Method
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


SIGMAS = [(f"loss.sigma={sigma}",) for sigma in (1, 2, 4, 8)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.4, 0.3, 0.2, 0.1), ("sigma=2, learning rate × 2.5", "sigma=1")),
        ((0.1, 0.2, 0.3, 0.4), ("sigma=4, learning rate × 0.16", "sigma=8, learning rate × 0.4")),
        ((None, None, 0.1, None), ("sigma=2, learning rate × 0.16", "sigma=1, learning rate × 0.4")),
        ((None, None, None, None), ("sigma=2, learning rate × 2.5", "sigma=1")),
    ],
)
def test_the_second_round_extends_the_best_of_the_first(values, expected):
    method = Method("bpr", "BPR", (SIGMAS[1], SIGMAS[2]), beyond=(SIGMAS[0], SIGMAS[3]), rates=(1.0, 0.4))
    tried = dict(zip(method.settings(4), values, strict=True))
    more = method.around(tried)
    assert tuple(setting.words for setting in more) == expected
    assert not set(more) & set(tried)
