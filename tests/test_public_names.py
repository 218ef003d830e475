"""A public name is a promise: each has a docstring with an example that runs (pytest runs them all)."""

import inspect

import pytest

import songrank
from songrank import data, estimators, functional, losses, metrics, models, sampling
from songrank.losses import memory

ROOMS = {
    room.__name__: room for room in (songrank, data, estimators, functional, losses, memory, metrics, models, sampling)
}
NO_EXAMPLE = {"Gain", "Rows", "UNSEEN"}  # type aliases and a constant
ABSTRACT = {"ListLoss", "MemoryLoss", "RankingLoss"}


def public():
    for title, room in ROOMS.items():
        for name in room.__all__:
            thing = getattr(room, name)
            if not inspect.ismodule(thing) and name not in NO_EXAMPLE | ABSTRACT:
                yield pytest.param(thing, id=f"{title}.{name}")


@pytest.mark.parametrize("thing", list(public()))
def test_a_public_name_has_an_example(thing):
    assert ">>>" in (thing.__doc__ or "")


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
