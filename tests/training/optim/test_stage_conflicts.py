"""Which options of a stage go together."""

import pytest

from songrank.core.errors import UserError
from songrank.training.config.recipe import Recipe
from songrank.training.trainer.stages import Stage
from tests.training.faster_runs import STAGE, trainer


def test_what_cannot_go_with_two_points_is_refused(folder):
    stage = trainer(folder, "song").stages[0]
    for wrong in ({"clip": 1.0}, {"optimiser": "lazy-adam"}, {"item_decay_power": 1.0}):
        with pytest.raises(ValueError, match="FasterSONG|a loss that uses two points"):
            Stage("fine-tuning", stage.loss, stage.sampler, 1, 1e-3, **wrong)


@pytest.mark.parametrize(
    ("loss", "stage", "message"),
    [
        ("song", {"correction": 2.0}, "fine_tuning.correction is 2.0; expected less than or equal to 1"),
        ("song", {"correction": 0.5}, "fine_tuning.correction is 0.5; expected none unless the loss uses two points"),
        (
            {"name": "faster-song", "points": 1},
            {"correction": 0.5},
            "fine_tuning.correction is 0.5; expected none unless the loss uses two points",
        ),
        ("faster-song", {"clip": 1.0}, "fine_tuning.clip is 1.0; expected none with a loss that uses two points"),
        (
            {"name": "faster-song", "points": 1},
            {"optimiser": "lazy-adam"},
            "fine_tuning.optimiser is 'lazy-adam'; expected adam or sgd with faster-song",
        ),
        (
            "faster-song",
            {"item_decay_power": 1},
            "fine_tuning.item_decay_power is 1.0; expected 0 with faster-song",
        ),
    ],
)
def test_what_does_not_go_with_a_loss_is_said_before_any_data_is_read(loss, stage, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        Recipe.read({"data": "x", "model": "neumf", "loss": loss, "fine_tuning": {**STAGE, **stage}})
