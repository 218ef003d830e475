"""Adding a model: its own file, one line of the registry, its test and its docs entry; here all of it in one place."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from songrank.core.options import Annotated, Whole, checked
from songrank.data import prepare
from songrank.models import registry
from songrank.models.base import Capabilities, DotProductModel
from songrank.serving.open import open_model
from songrank.serving.recommendations import recommend
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run


class OneFactor(DotProductModel):
    """score = p_query · q_item, with few numbers."""

    capabilities = Capabilities(
        "ids",
        query_tables=("query.weight",),
        item_tables=("item.weight",),
        sparse_rows=True,
        dot_product=True,
    )

    @checked
    def __init__(self, num_queries: int, num_items: int, dim: Annotated[int, Whole()] = 2) -> None:
        super().__init__()
        self.num_items = num_items
        self.query, self.item = nn.Embedding(num_queries, dim), nn.Embedding(num_items, dim)

    @property
    def item_layer(self):
        return self.item

    def query_vectors(self, query):
        return self.query(query)

    def reset_head(self):
        """There is no head."""


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(registry.MODELS, "one-factor", OneFactor)
    monkeypatch.setitem(registry.INPUTS, "ids", (*registry.INPUTS["ids"], "one-factor"))


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam", "sgd"])
def test_a_registered_model_trains_and_recommends(registered, optimiser, tmp_path):
    prepare("synthetic", None, tmp_path / "data", queries=20, items=30, pairs=200)
    stage = {"epochs": 1, "optimiser": optimiser}
    recipe = Recipe.read(
        {
            "data": str(tmp_path / "data"),
            "model": {"name": "one-factor", "dim": 3},
            "batch": {"irrelevant": 10},
            "warm_up": stage,
            "fine_tuning": stage,
            "device": "cpu",
        }
    )
    run = Run.begin(recipe, tmp_path / "run")
    assert run.finish()
    assert load_file(tmp_path / "run" / "model.safetensors")["item.weight"].shape == (30, 3)
    folder = open_model(tmp_path / "run")
    found = torch.cat([batch.item for batch in recommend(folder, list(folder.query_ids), k=5)])
    assert found.numel() == 20 * 5


def test_its_options_are_checked_before_any_data_is_read(registered):
    values = {"data": "nowhere", "model": {"name": "one-factor", "dim": 0}, "fine_tuning": {"epochs": 1}}
    with pytest.raises(ValueError, match=r"^model.dim is 0; expected a whole number of at least 1$"):
        Recipe.read(values)
