"""The losses of the benchmark."""

import pytest

from songrank_paper.ir_benchmark.losses import SOFTMAX, SONG, benchmark_methods
from songrank_paper.ir_benchmark.recipes import BenchmarkRecipe
from songrank_paper.published import IR_BENCHMARK

BENCHMARK_METHODS = benchmark_methods("ir-health", "mf")
WIDE = benchmark_methods("ir-health", "lightgcn")
NAMES = [method.name for method in BENCHMARK_METHODS]


def test_names_are_distinct_and_those_of_published_rows_and_baselines():
    assert len(NAMES) == len(set(NAMES)) == 12
    assert {SOFTMAX, SONG} <= set(NAMES)
    assert all(set(rows) <= set(NAMES) for sets in IR_BENCHMARK.values() for rows in sets.values())


@pytest.mark.parametrize("method", BENCHMARK_METHODS + WIDE, ids=NAMES + [f"{name}, wide" for name in NAMES])
@pytest.mark.parametrize("best", range(4))
def test_every_method_has_six_different_valid_settings(method, best):
    recipes = BenchmarkRecipe("ir-health", "mf")
    first = method.settings(4)
    second = method.around({setting: float(at == best) for at, setting in enumerate(first)})
    resolved = [recipes.fine_tuning(setting, 0) for setting in [*first, *second]]
    assert all(one not in resolved[:at] for at, one in enumerate(resolved))
    assert len(resolved) == 6
    rates = [recipe["fine_tuning"]["learning_rate"] for recipe in resolved]
    assert rates[:4] == pytest.approx([1e-2, 1e-2, 4e-3, 4e-3])
    assert rates[4:] == pytest.approx([2.5e-2, 1e-2] if best < 2 else [1.6e-3, 4e-3])


def test_the_cutoff_of_top_k_baselines_is_that_of_the_metric():
    for method in BENCHMARK_METHODS:
        if method.name in ("sl-at-k", "lambdaloss"):
            assert BenchmarkRecipe("ir-health", "mf").fine_tuning(method.settings(1)[0], 0)["loss"]["k"] == 20


def test_published_values_are_those_of_the_table():
    assert IR_BENCHMARK["mf"]["ir-health"]["sl-at-k"] == {"ndcg@20": 0.1390, "recall@20": 0.1823}
    assert IR_BENCHMARK["mf"]["ir-electronic"]["softmax"] == {"ndcg@20": 0.0529, "recall@20": 0.0821}
    assert IR_BENCHMARK["lightgcn"]["ir-gowalla"]["bpr"] == {"ndcg@20": 0.1402, "recall@20": 0.1745}
    for sets in IR_BENCHMARK.values():
        for rows in sets.values():
            assert all(row["ndcg@20"] < row["recall@20"] for row in rows.values())
