"""Training: train a model on a data set as a recipe describes.

>>> import tempfile
>>> from songrank.data import prepare
>>> from songrank.training import Run, load_recipe
>>> folder = tempfile.mkdtemp()
>>> _ = prepare("synthetic", None, folder + "/data", queries=60, items=80, pairs=900)
>>> short = ["warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu"]
>>> run = Run.begin(load_recipe("quick", [f"data={folder}/data", "loss=k-song", *short]), folder + "/run")
>>> run.finish(), list(run.results)
(True, ['validation', 'test'])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from songrank.training.config.recipe_files import load_recipe as load_recipe
    from songrank.training.run import Run as Run

__all__ = ["Run", "load_recipe"]

_HOMES = {"Run": "run", "load_recipe": "config.recipe_files"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
