"""Adding a recipe key: its field (config/recipe.py), what reads it, and its row in docs/training.md."""

import re
from pathlib import Path

import pytest
from pydantic import Field

from songrank.training.config.recipe import Batch, Evaluation, FineTuning, Recipe, Validation, WarmUp

PAGE = (Path(__file__).parents[3] / "docs" / "training.md").read_text(encoding="utf-8")

SECTIONS = {"batch": Batch, "warm_up": WarmUp, "fine_tuning": FineTuning, "validation": Validation}

SECTIONS |= {"evaluation": Evaluation}

WRITTEN_BY_COMMANDS = {"members"}


@pytest.mark.parametrize("section", [Recipe, *SECTIONS.values()])
def test_every_key_is_documented(section):
    words = set(re.findall(r"[a-z_]+", PAGE))
    assert set(section.model_fields) - WRITTEN_BY_COMMANDS <= words


def test_a_new_key_is_one_field():
    """What adding a key takes: a field with type, default and description; reading and errors follow."""

    class LongerBatch(Batch):
        negatives_per_pair: int = Field(1, ge=1, description="irrelevant items per relevant item")

    class LongerRecipe(Recipe):
        batch: LongerBatch = LongerBatch()

    values = {"data": "x", "model": "neumf", "fine_tuning": {"epochs": 1}}
    assert LongerRecipe.read({**values, "batch": {"negatives_per_pair": 3}}).batch.negatives_per_pair == 3
    with pytest.raises(ValueError, match=r"^batch.negatives_per_pair is 0; expected greater than or equal to 1$"):
        LongerRecipe.read({**values, "batch": {"negatives_per_pair": 0}})
    with pytest.raises(ValueError, match=r"^batch.negatives is no key of a recipe; expected one of .*_per_pair"):
        LongerRecipe.read({**values, "batch": {"negatives": 0}})
