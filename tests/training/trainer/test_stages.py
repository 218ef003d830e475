"""Stages of a training run."""

from dataclasses import fields

import pytest

from songrank.training.config.recipe import FineTuning, WarmUp
from songrank.training.trainer.stages import Stage


@pytest.mark.parametrize("section", [WarmUp, FineTuning])
def test_every_key_of_a_stage_reaches_the_trainer(section):
    of_the_recipe = {"loss", "min_steps"}  # the trainer has the loss as an object, and the number of epochs
    assert set(section.model_fields) - of_the_recipe <= {field.name for field in fields(Stage)}
