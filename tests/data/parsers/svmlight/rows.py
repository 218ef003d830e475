"""Helpers that tests of several modules share."""

from songrank.data.parsers.svmlight import Rows
from songrank.data.parsers.svmlight.lines import parse_lines

LIMITS = {"first_index": 1, "max_index": 10_000_000}


def careful(data: bytes) -> Rows:
    return parse_lines(data, file="f", line=1, **LIMITS)


def assert_equal(found: Rows, expected: Rows) -> None:
    """Equal to the last bit, NaN and the sign of zero included."""
    for name in ("label", "query", "offsets", "index", "value"):
        left, right = getattr(found, name), getattr(expected, name)
        if left is None or right is None:
            assert left is right, name
        else:
            assert left.dtype == right.dtype, name
            assert left.tolist() == right.tolist() or left.tobytes() == right.tobytes(), name
    assert found.value.tobytes() == expected.value.tobytes()
