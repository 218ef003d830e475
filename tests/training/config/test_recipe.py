"""Adding a recipe key: its field (config/recipe.py) and what reads it; tests/docs checks that the reference has it."""

import pytest
from pydantic import Field

from songrank.training.config.recipe import Batch, Recipe


def test_a_new_key_is_one_field():
    """What adding a key takes: a field with type, default and description; reading and errors follow."""

    class LongerBatch(Batch):
        negatives_per_pair: int = Field(1, ge=1, description="Number of irrelevant items per relevant item.")

    class LongerRecipe(Recipe):
        batch: LongerBatch = LongerBatch()

    values = {"data": "x", "model": "neumf", "fine_tuning": {"epochs": 1}}
    assert LongerRecipe.read({**values, "batch": {"negatives_per_pair": 3}}).batch.negatives_per_pair == 3
    with pytest.raises(ValueError, match=r"^batch.negatives_per_pair is 0; expected greater than or equal to 1$"):
        LongerRecipe.read({**values, "batch": {"negatives_per_pair": 0}})
    with pytest.raises(ValueError, match=r"^unknown recipe key 'batch.negatives'; did you mean 'negatives_per_pair'"):
        LongerRecipe.read({**values, "batch": {"negatives": 0}})
    with pytest.raises(ValueError, match=r"^unknown recipe key 'batch.foo'; expected one of .*_per_pair"):
        LongerRecipe.read({**values, "batch": {"foo": 0}})


def described(section, prefix=""):
    for name, field in section.model_fields.items():
        yield f"{prefix}{name}", field.description
        if hasattr(field.annotation, "model_fields"):
            yield from described(field.annotation, f"{prefix}{name}.")


@pytest.mark.parametrize(("key", "words"), described(Recipe))
def test_every_key_has_a_description_of_one_sentence(key, words):
    assert (words or "").endswith("."), key
