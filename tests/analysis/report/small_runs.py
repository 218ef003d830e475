"""Runs that take about a second, one for each task, and reports of them."""

from songrank.cli.data import app
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from tests.cli.small_sets import recipe


def train(folder, task, *changes, name="run"):
    """Prepare the small data set of a task if it is not there, and train on it; the run that is finished."""
    if not (folder / "data").exists():
        words, _ = recipe(folder, task)
        app([str(word) for word in words[1:]], standalone_mode=False)
    run = Run.begin(load_recipe(str(folder / "recipe.yaml"), ["device=cpu", *changes]), folder / name, save_every=0.0)
    assert run.finish()
    return run
