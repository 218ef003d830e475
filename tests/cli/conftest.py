"""What tests of several commands begin with."""

import json

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from tests.cli.small_sets import recipe


@pytest.fixture
def ratings(tmp_path, songrank):
    words, path = recipe(tmp_path, "recommendation")
    assert songrank(*words).returncode == 0
    return path


@pytest.fixture
def compare(songrank):
    return lambda *words: songrank("compare", *words)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the folder of a run below the current one, and return its values."""
    monkeypatch.chdir(tmp_path)

    def write_run(name, loss="song", *, seed=0, model="mlp", data="a", shift=0.0, metrics=("ndcg@10",), **changes):
        values = np.random.default_rng([seed, len(name), int(100 * shift)]).random(6) / 2 + shift
        values[2] = np.nan
        config = {"model": {"name": model}, "loss": {"name": loss}, "data": f"data/{data}", "seed": seed}
        evaluation = {
            "split": "test",
            "metrics": {metric: float(np.nanmean(values)) / (1 + i) for i, metric in enumerate(metrics)},
            "queries": 6,
            "empty": 1,
            "ties": "pessimistic",
            "empty_policy": "skip",
            "gain": "exp2",
            "candidates": "all",
            "lists_sha256": (data * 64)[:64],
        }
        for key, value in changes.items():
            if key in evaluation:
                evaluation[key] = value
            elif isinstance(value, dict):
                config[key] = config.get(key, {}) | value
            else:
                config[key] = value
        folder = tmp_path / name
        (folder / "evaluation").mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "evaluation" / "test.json").write_text(json.dumps(evaluation))
        save_file(
            {metric: values / (1 + i) for i, metric in enumerate(metrics)}, folder / "evaluation/test.safetensors"
        )
        return values

    return write_run
