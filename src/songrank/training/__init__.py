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

from typing import TYPE_CHECKING

from songrank.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run

__all__ = ["Run", "load_recipe"]

__getattr__ = lazy_names(__name__, {"Run": ".run", "load_recipe": ".config.recipe_files"})
