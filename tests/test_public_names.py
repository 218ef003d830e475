"""Public names, and what an import of the package loads."""

import pytest

import songrank
from songrank import data, estimators, functional, losses, metrics, models, sampling
from songrank.losses import memory

ROOMS = (songrank, data, estimators, functional, losses, memory, metrics, models, sampling)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_name_exists(room):
    assert [name for name in room.__all__ if not hasattr(room, name)] == []


def test_completion_offers_the_estimators_and_no_helpers():
    assert {"DocumentRanker", "LabelRanker", "Recommender", "SONG", "__version__"} <= set(dir(songrank))
    assert {"Any", "TYPE_CHECKING"}.isdisjoint(dir(songrank))


def test_importing_songrank_needs_nothing_but_torch_and_numpy():
    assert {"polars", "pandas", "sklearn", "scipy", "pydantic", "typer", "rich", "safetensors"}.isdisjoint(
        name.split(".")[0] for name in _loaded_by_import()
    )


def test_training_reads_no_tables_and_needs_no_library_for_them():
    assert {"polars", "pandas", "optuna"}.isdisjoint(
        name.split(".")[0] for name in _loaded_by_import("songrank.training.run")
    )


def _loaded_by_import(module="songrank"):
    import subprocess
    import sys

    code = f"import sys, torch, numpy; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
