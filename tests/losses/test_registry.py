"""Losses by name."""

import pytest

from songrank.core.errors import DataError
from songrank.losses.registry import LOSSES, check_weighted_loss, register


def test_a_registered_loss_is_returned_unchanged(monkeypatch):
    kind = LOSSES["softmax"]
    monkeypatch.setitem(LOSSES, "other", LOSSES["bce"])
    assert register("other")(kind) is kind
    assert LOSSES["other"] is kind


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_document_weights_are_taken_by_losses_with_gains_alone(name):
    if LOSSES[name].traits.gains:
        check_weighted_loss(name)
    else:
        with pytest.raises(DataError, match=f"loss '{name}' does not use; omit it or choose .*k-song"):
            check_weighted_loss(name)
