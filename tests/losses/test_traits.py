"""What losses declare about themselves holds for the objects that are built."""

import inspect

import pytest

from songrank.losses import MemoryLoss
from songrank.losses.faster_song import VarianceReduced
from songrank.losses.registry import LOSSES
from songrank.training.config.components import option_class

every_loss = pytest.mark.parametrize("name", LOSSES)


@every_loss
def test_a_loss_declares_memory_if_and_only_if_it_is_a_memory_loss(name):
    assert LOSSES[name].traits.memory == issubclass(LOSSES[name], MemoryLoss)


@every_loss
def test_a_loss_with_a_previous_point_takes_it_and_says_how_many_points(name):
    traits = LOSSES[name].traits
    assert traits.previous_point == traits.whole_batch == issubclass(LOSSES[name], VarianceReduced)
    assert traits.previous_point == ("before" in inspect.signature(LOSSES[name].forward).parameters)
    assert traits.previous_point == ("points" in option_class(LOSSES[name]).model_fields)


@every_loss
def test_searched_options_are_options_of_the_loss(name):
    assert set(LOSSES[name].traits.search) <= set(option_class(LOSSES[name]).model_fields)


def test_the_plain_form_of_a_faster_loss_is_registered():
    plain = {name: kind.traits.plain for name, kind in LOSSES.items() if kind.traits.plain}
    assert plain == {"faster-song": "song", "faster-k-song": "k-song"}


def test_losses_that_compare_each_item_with_each():
    assert [name for name, kind in LOSSES.items() if kind.traits.cost == "O(L²)"] == ["neural-ndcg", "pirank"]
