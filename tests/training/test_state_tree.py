"""State as tensors and JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from songrank.training.state_tree import flatten, unflatten

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)

TREES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=12) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_comes_back_through_json(state):
    tree, tensors = flatten({"state": state})
    assert unflatten(json.loads(json.dumps(tree)), tensors) == {"state": state}
