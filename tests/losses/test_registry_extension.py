"""The worked example of CONTRIBUTING: a new loss is its file, one line that imports it, a row of the table, its docs.

What follows is such a file. A recipe trains with the loss, and every place that asks for traits is answered.
"""

import pytest
import torch
from torch import Tensor

from songrank.analysis.search_space import default_search
from songrank.core.options import checked
from songrank.data import prepare
from songrank.losses import ListLoss
from songrank.losses.base import Positive, Traits
from songrank.losses.registry import LOSSES, register
from songrank.training.build import make_trainer
from songrank.training.config.recipe import Recipe


def hinge_loss(scores: Tensor, labels: Tensor, *, mask: Tensor | None, reduction: str, margin: float) -> Tensor:
    assert reduction == "none"
    signs = torch.where(labels > 0, 1.0, -1.0)
    terms = torch.relu(margin - signs * scores)
    return (terms if mask is None else torch.where(mask, terms, 0.0)).mean(-1)


class PointwiseHinge(ListLoss):
    """The pointwise hinge max(0, c ∓ s), a loss of nobody's: an example."""

    traits = Traits(search={"margin": "scale"})
    formula = staticmethod(hinge_loss)

    @checked
    def __init__(self, margin: Positive = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate, margin=margin)


@pytest.fixture
def registered():
    register("pointwise-hinge")(PointwiseHinge)
    yield
    del LOSSES["pointwise-hinge"]


def recipe(**loss):
    values = {"data": "data", "model": {"name": "neumf", "dim": 4}, "batch": {"irrelevant": 9}, "device": "cpu"}
    return Recipe.read({**values, "warm_up": {"epochs": 0}, "fine_tuning": {"epochs": 2}, "loss": loss})


@pytest.mark.usefixtures("registered")
def test_a_recipe_trains_with_a_registered_loss_and_its_options(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "data", queries=20, items=30, pairs=200)
    trainer = make_trainer(recipe(name="pointwise-hinge", margin="0.5"), dataset)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    assert trainer.run().step > 0
    assert any(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))
    assert trainer.stages[0].loss.options == {"margin": 0.5}


@pytest.mark.usefixtures("registered")
def test_a_registered_loss_is_searched_by_its_traits():
    assert "loss.margin=0.25..4.0:log" in default_search(recipe(name="pointwise-hinge"))


@pytest.mark.usefixtures("registered")
def test_a_wrong_option_of_a_registered_loss_is_named():
    with pytest.raises(ValueError, match=r"unknown option 'margn' for loss 'pointwise-hinge'; did you mean 'margin'\?"):
        recipe(name="pointwise-hinge", margn=1.0)
