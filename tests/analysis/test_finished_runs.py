"""Which finished runs are one method."""

from pathlib import Path

import torch

from songrank.analysis.finished_runs import POLICIES, FinishedRun, flat, group_runs
from songrank.training.config.recipe_files import load_recipe


def finished(seed, config):
    values = {"ndcg@10": torch.tensor([0.5, 0.25])}
    policies = dict.fromkeys(POLICIES, "all")
    return FinishedRun(
        Path(f"run-{seed}"), {**config, "seed": seed}, {"ndcg@10": 0.375}, values, 2, 0, policies, "0" * 64
    )


def test_nested_keys_are_joined_by_dots():
    found = flat({"loss": {"name": "song", "gamma": 0.1}, "seed": 0})
    assert found == {"loss.name": "song", "loss.gamma": 0.1, "seed": 0}


def test_a_run_of_an_earlier_version_is_the_same_method_as_one_of_this_version():
    now = load_recipe("quick", ["loss=song"]).model_dump(mode="json")
    before = {**now, "loss": {**now["loss"], "lagged": False, "estimator": "strata"}}
    del before["loss"]["form"]
    (method,) = group_runs([finished(0, before), finished(1, now)])
    assert method.label == "song"
    first, second = group_runs([finished(0, before), finished(1, {**now, "loss": {**now["loss"], "gamma": 0.3}})])
    assert (first.label, second.label) == ("song loss.gamma=0.1", "song loss.gamma=0.3")


def test_a_configuration_of_another_tool_is_taken_as_it_is():
    config = {"model": {"name": "theirs"}, "loss": {"name": "theirs", "depth": 3}, "data": "data"}
    deeper = {**config, "loss": {"name": "theirs", "depth": 4}}
    labels = [method.label for method in group_runs([finished(0, config), finished(1, deeper)])]
    assert labels == ["theirs loss.depth=3", "theirs loss.depth=4"]
