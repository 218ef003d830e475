"""Two rounds of settings on validation, then all training pairs, then test once."""

import pytest

from songrank.core.errors import UserError
from songrank_paper.experiment import Plan
from songrank_paper.ir_benchmark.protocol import benchmark_protocols
from songrank_paper.protocol import TUNING_SEED
from tests.songrank_paper.ir_benchmark.small import protocol, value
from tests.songrank_paper.small_training import plan, users


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return users(tmp_path_factory.mktemp("data") / "users")


def tried(each, method, *values):
    found = {}
    for number in values:
        new = next(one for one in each.tuning(method, found).values() if one.cell.key not in found)
        found[new.cell.key] = value(number)
    return found


def test_the_second_round_follows_the_first(data):
    each = protocol(data)
    method = each.method("softmax")
    assert len(each.tuning(method)) == 2
    assert len(each.tuning(method, tried(each, method, 0.1))) == 2
    found = tried(each, method, 0.1, 0.2)
    first, second, third = each.tuning(method, found)
    assert third == method.around({first: 0.1, second: 0.2})[0]
    assert each.chosen(method, found) is None
    assert each.chosen(method, tried(each, method, 0.1, 0.2, 0.15)) == second
    assert each.chosen(method, tried(each, method, 0.1, 0.2, 0.3)) == third
    assert each.chosen(method, tried(each, method, 0.1, 0.2, None)) == second


def test_settings_are_chosen_on_validation_with_another_seed(data):
    each = protocol(data)
    for method in each.methods:
        for training in each.tuning(method).values():
            options = training.cell.options
            assert options["splits"] == ["validation"]
            assert options["recipe"]["seed"] == TUNING_SEED
            assert options["data"] == each.data


def test_reported_runs_have_all_training_pairs_and_the_best_number_of_epochs(data):
    each = protocol(data)
    method = each.method("song")
    found = tried(each, method, 0.1, 0.2, 0.15)
    assert each.reported(method, found) == []  # the joined data are missing
    found[each.joined.key] = {"data": "0123"}
    chosen = each._tried(each.chosen(method, found)).cell.key
    found[chosen]["epochs"] = {"warm_up": 2, "fine_tuning": 5}
    reported = [one.cell for one in each.reported(method, found)]
    assert [cell.options["recipe"]["seed"] for cell in reported] == [0, 1]
    for cell in reported:
        recipe = cell.options["recipe"]
        assert (recipe["warm_up"]["epochs"], recipe["fine_tuning"]["epochs"]) == (2, 5)
        assert recipe["validation"]["every"] == 0
        assert (cell.options["data"], cell.options["joined"], cell.options["splits"]) == (
            "0123",
            each.joined.key,
            ["test"],
        )
        assert "path" not in cell.where


def test_a_method_whose_settings_all_diverged_has_no_reported_runs(data):
    each = protocol(data)
    method = each.method("bpr")
    found = {**tried(each, method, None, None, None), each.joined.key: {"data": "0123"}}
    assert each.reported(method, found) == []


def test_keys_depend_on_the_backbone_and_neither_on_place_nor_device(data):
    one, other = protocol(data), protocol(data, "lightgcn")
    cells = [next(iter(each.tuning(each.method("bpr")).values())).cell for each in (one, other)]
    assert cells[0].key != cells[1].key
    assert one.joined.key == other.joined.key
    assert cells[0].where.keys() == {"path", "device"}


def test_sets_of_the_benchmark_are_needed(data):
    assert [
        each.title for each in benchmark_protocols(plan(ir_health=data, movielens_1m=data), ("mf", "lightgcn"))
    ] == [
        "ir-health, mf",
        "ir-health, lightgcn",
    ]
    with pytest.raises(UserError, match="a set of IR-Benchmark is needed"):
        benchmark_protocols(Plan(data={"movielens-1m": data}), ("mf",))
