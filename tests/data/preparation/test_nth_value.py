"""Selection by digits, against sorting."""

import numpy as np
import pytest

from songrank.data.preparation.nth_value import nth_key, sort_keys

RNG = np.random.default_rng(0)
VALUES = {
    "whole": RNG.integers(-(2**63), 2**63 - 1, 500, endpoint=True),
    "few": RNG.integers(-3, 3, 500),
    "fractions": np.concatenate([RNG.normal(size=300) * 10.0 ** RNG.integers(-300, 300, 300), [0.0, -0.0, 1e-320]]),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_nth_key_is_that_of_the_nth_value_in_order(name):
    values = VALUES[name]
    ordered, keys = np.sort(values), sort_keys(values)
    assert ((keys[:, None] < keys) == (values[:, None] < values)).all()
    for number in (0, 1, len(values) // 2, len(values) - 1):
        key, below = nth_key(lambda: np.array_split(keys, 7), number)
        assert key == sort_keys(ordered[number : number + 1])[0]
        assert below == np.count_nonzero(values < ordered[number])
