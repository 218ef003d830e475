"""Helpers that tests of several modules share."""

import torch


def equal(state, other):
    assert state.keys() == other.keys()
    for name, value in state.items():
        assert torch.equal(value, other[name]), name
