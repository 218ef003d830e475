"""Lines of a bag-of-words file, by the vectorised parser and line by line."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError
from songrank.data.parsers.bag_of_words import Header, parse_all_at_once, parse_bags, parse_line_by_line
from songrank.io.source import Block
from tests.data.readers.labelled import few

COLUMNS = ("label_counts", "item", "feature_counts", "index", "value")

WORDS = st.sampled_from(
    ["0:1", "5:.5", "2:1e-3", "3:-7.25", "1:0.1234567891234567", "6:1", "4:+1", "1:x", "3", "2:", "01:5."]
)

LABELS = st.sampled_from(["", "0", "1,2", "3,0", "2,2", "4", "1,", "-1", "x", "007"])


@few
@given(st.lists(st.tuples(LABELS, st.sampled_from([" ", "  ", "\t"]), st.lists(WORDS, max_size=5)), max_size=6))
def test_both_parsers_agree(rows):
    text = "".join(f"{labels}{blank}{' '.join(words)}\n" for labels, blank, words in rows) or "\n"
    block, header = Block(text.encode(), 2, "f"), Header(len(rows), 6, 4)
    fast = parse_all_at_once(block, header)
    try:
        careful = parse_line_by_line(block, header)
    except DataError:
        assert fast is None
        return
    for found in filter(None, (fast, parse_bags(block, header))):
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(found, name), getattr(careful, name), strict=True)


def test_usual_lines_go_the_fast_way():
    assert parse_all_at_once(Block(b"1,2 0:0.5 3:1\n 1:2\n", 2, "f"), Header(2, 6, 4)) is not None
