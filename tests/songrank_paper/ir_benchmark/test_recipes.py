"""Recipes of the benchmark."""

import pytest

from songrank_paper.ir_benchmark.losses import benchmark_methods
from songrank_paper.ir_benchmark.recipes import BenchmarkRecipe

BENCHMARK_METHODS = benchmark_methods("ir-gowalla", "mf")


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_only_the_squared_hinge_has_a_warm_up_and_within_the_same_budget(backbone):
    recipes = BenchmarkRecipe("ir-gowalla", backbone)
    for method in BENCHMARK_METHODS:
        for setting in method.settings(4):
            recipe = recipes.fine_tuning(setting, 3)
            lengths = recipe["warm_up"]["epochs"], recipe["fine_tuning"]["epochs"]
            hinge = method.name in ("song", "k-song")
            assert lengths == ((15, 45) if hinge else (0, 60))
            assert recipe["warm_up"]["loss"]["temperature"] * recipe["model"]["temperature"] == pytest.approx(0.2)
            assert recipe["warm_up"]["learning_rate"] == recipe["fine_tuning"]["learning_rate"]
            assert recipe["seed"] == 3
            assert not recipe["fine_tuning"]["reset_head"]


def test_all_methods_have_the_same_model_batch_and_validation():
    for name in ("ir-health", "ir-electronic", "ir-gowalla"):
        recipes = [BenchmarkRecipe(name, "mf").fine_tuning(one.settings(1)[0], 0) for one in BENCHMARK_METHODS]
        for key in ("batch", "validation", "evaluation", "gain"):
            assert all(recipe[key] == recipes[0][key] for recipe in recipes)
        models = [{**recipe["model"], "temperature": 1.0} for recipe in recipes]
        assert all(model == models[0] for model in models)
        assert (models[0]["scoring"], models[0]["dim"]) == ("cosine", 64)


def test_last_changes_win_and_a_quick_run_is_small():
    setting = BENCHMARK_METHODS[0].settings(1)[0]
    quick = BenchmarkRecipe("ir-health", "lightgcn", quick=True, changes=("model.dim=4",))
    recipe = quick.fine_tuning(setting, 0, "fine_tuning.epochs=5")
    assert (recipe["model"]["dim"], recipe["model"]["layers"], recipe["fine_tuning"]["epochs"]) == (4, 2, 5)
    assert recipe["batch"]["queries"] < 256
    assert "reduced for a quick run" in quick.remarks()[0]
