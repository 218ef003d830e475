"""Public names, and what an import of the package loads."""

import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import songrank
import songrank.training
import songrank_paper.synthetic
from songrank import data, estimators, functional, losses, metrics, models, sampling
from songrank.losses import memory

ROOMS = (songrank, data, estimators, functional, losses, memory, metrics, models, sampling)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_name_exists(room):
    assert [name for name in room.__all__ if not hasattr(room, name)] == []


def test_completion_offers_the_estimators_and_no_helpers():
    assert {"DocumentRanker", "LabelRanker", "Recommender", "SONG", "__version__"} <= set(dir(songrank))
    assert {"Any", "TYPE_CHECKING"}.isdisjoint(dir(songrank))


def test_importing_songrank_takes_no_time():
    """Its names are imported when they are first used."""
    assert all(name.split(".")[0] == "songrank" for name in _loaded_by_import())
    assert len(_loaded_by_import()) < 5


LIGHT = ["--help", "data list", "data --help", "recipes", "recipes quick", "data list interactions", "paper --help"]


@pytest.mark.parametrize("words", LIGHT)
def test_help_and_lists_need_no_torch(words):
    code = f"""
import sys
sys.argv = ["songrank", *{words.split()}]
import songrank_command
try:
    songrank_command.main()
finally:
    print("loaded", {{name.split(".")[0] for name in sys.modules}}, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout)) == (0, True)
    loaded = eval(done.stderr.partition("loaded")[2])
    assert "songrank" in loaded
    assert {"torch", "numpy", "polars", "matplotlib"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    "room", [songrank, data, songrank.training, songrank_paper.synthetic], ids=lambda room: room.__name__
)
def test_no_lazy_name_is_that_of_a_module_of_its_package(room):
    """Which would replace it once the module is imported."""
    own = {module.name for module in pkgutil.iter_modules(room.__path__)}
    assert [name for name in room.__all__ if name in own and not isinstance(getattr(room, name), ModuleType)] == []


def test_importing_all_rooms_needs_nothing_but_torch_and_numpy():
    rooms = "data, songrank.functional, songrank.losses, songrank.metrics, songrank.models, songrank.sampling"
    assert {"polars", "pandas", "sklearn", "scipy", "pydantic", "typer", "rich", "safetensors"}.isdisjoint(
        name.split(".")[0] for name in _loaded_by_import(f"songrank.{rooms}")
    )


def test_training_reads_no_tables_and_needs_no_library_for_them():
    assert {"polars", "pandas", "optuna"}.isdisjoint(
        name.split(".")[0] for name in _loaded_by_import("songrank.training.run")
    )


def _loaded_by_import(module="songrank"):
    code = f"import sys, torch, numpy; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
