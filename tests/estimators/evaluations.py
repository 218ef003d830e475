"""Comparison of the final evaluations of two estimators."""

import torch


def same_evaluations(found, wanted):
    """All evaluation sets have the same metrics, policies and values per query."""
    assert list(found) == list(wanted)
    for name, one in wanted.items():
        assert str(found[name]) == str(one)
        assert found[name].values == one.values
        for metric, values in one.per_query.items():
            torch.testing.assert_close(found[name].per_query[metric], values.cpu(), rtol=0, atol=0, equal_nan=True)
