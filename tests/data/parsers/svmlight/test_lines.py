"""SVMlight lines, parsed one by one."""

import numpy as np
import pytest

from songrank.core.errors import DataError
from songrank.data.parsers.svmlight import Rows, parse_rows
from songrank.data.parsers.svmlight.vectorised import parse_words
from tests.data.parsers.svmlight.rows import LIMITS, assert_equal, careful

newline = b"\n"

# text, labels, queries, offsets, indices, values; whether all lines are parsed at once
GOOD = [
    (b"2 qid:7 1:0.5 3:-1\n", [2], [7], [0, 2], [1, 3], [0.5, -1], True),
    (b"0\n1\n", [0, 1], None, [0, 0, 0], [], [], True),
    (b"0 qid:1\n1 qid:1 9:0\n0 qid:2\n", [0, 1, 0], [1, 1, 2], [0, 0, 1, 1], [9], [0], True),
    (b"", [], None, [0], [], [], True),
    (b"# only\n\n#", [], None, [0], [], [], True),
    (b"   \n\t\n", [], None, [0], [], [], False),
    (b"1\t1:2\t \n\n3  4:5 # 6:7 # qid:8\n", [1, 3], None, [0, 1, 2], [1, 4], [2, 5], True),
    (b"1 qid:3 1:2\r\n0 qid:3 1:4\r\n\r\n0 qid:4 1:1\r", [1, 0, 0], [3, 3, 4], [0, 1, 2, 3], [1] * 3, [2, 4, 1], True),
    (b"1 1:NULL 2:null 3:Null 4:4", [1], None, [0, 4], [1, 2, 3, 4], [np.nan] * 3 + [4], True),
    (b"1 1:1.79769313486232E308 2:2", [1], None, [0, 2], [1, 2], [np.nan, 2], True),  # Istella's word for NULL
    (b"1.5 1:+5 2:1e3 3:1E-2 4:.5 5:5. 6:-.5 7:-0",
     [1.5], None, [0, 7], range(1, 8), [5, 1e3, 0.01, 0.5, 5, -0.5, -0.0], True),
    (b"+1 007:00012.500", [1], None, [0, 1], [7], [12.5], True),
    (b"1 1:0.1234567890123456789 2:1e-60 3:9007199254740993 4:340282356779733600000000000000000000000",
     [1], None, [0, 4], [1, 2, 3, 4], [0.12345679, 0, 9007199254740992, 3.4028235e38], True),
    (b"0 qid:9223372036854775807 1:1\n0 qid:-3 1:1", [0, 0], [2**63 - 1, -3], [0, 1, 2], [1, 1], [1, 1], True),
    (b"0 qid:9223372036854775808 1:1\n0 qid:3 1:1",
     [0, 0], ["9223372036854775808", "3"], [0, 1, 2], [1, 1], [1, 1], True),
    (b"0 qid:07 1:1\n0 qid:7 1:1\n", [0, 0], ["07", "7"], [0, 1, 2], [1, 1], [1, 1], True),
    ("0 qid:käse 1:1\n0 qid:12.5 1:1\n".encode(), [0, 0], ["käse", "12.5"], [0, 1, 2], [1, 1], [1, 1], True),
    (b"0 qid:a:b 1:1\n", [0], ["a:b"], [0, 1], [1], [1], False),
    (b" 1 1:2\n", [1], None, [0, 1], [1], [2], False),
    (b"1 10000000:2 # \xff", [1], None, [0, 1], [10_000_000], [2], True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "label", "query", "offsets", "index", "value", "at_once"), GOOD, ids=repr)
def test_accepted_lines(text, label, query, offsets, index, value, at_once):
    expected = Rows(
        np.array(label, np.float32),
        None if query is None else np.array(query, np.int64 if isinstance(query[0], int) else object),
        np.array(offsets, np.int64),
        np.array(index, np.int32),
        np.array(value, np.float32),
    )
    assert_equal(careful(text), expected)
    assert_equal(parse_rows(text, file="f"), expected)
    assert (parse_words(text, **LIMITS) is not None) is at_once


BAD = [
    (b"x 1:1", "label is 'x'; expected a finite number"),
    (b"1:1 2:2", "label is '1:1'; expected a finite number; start the line with it"),
    (b"-1 1:1", "label is '-1'; expected a relevance of at least 0"),
    (b"nan 1:1", "label is 'nan'; expected a finite"),
    (b"inf 1:1", "label is 'inf'; expected a finite"),
    (b"NULL 1:1", "label is 'NULL'; expected a finite"),
    (b"1e39 1:1", "label is '1e39'; expected a finite"),
    (b"1.79769313486232E308 1:1", "label is '1.79769313486232E308'; expected a finite"),
    (b"0 1:1e308", "feature 1 is '1e308'; expected a finite"),
    (b"0 1:-1.79769313486232E308", "feature 1 is '-1.79769313486232E308'; expected a finite"),
    (b"0 1:1e400", "feature 1 is '1e400'; expected a finite"),
    (b"0 qid: 1:1", "qid: is empty; expected a query id"),
    (b"0 qid:\xe9 1:1", r"query id is '\xe9'; expected UTF-8"),
    (b"0 1:1 qid:3", "'qid:3' is not the second field; expected one qid:"),
    (b"0 qid:3 qid:4", "'qid:4' is not the second field; expected one qid:"),
    (b"0 QID:3 1:1", "feature index is 'QID' in 'QID:3'; expected a whole number"),
    (b"0 0:1", "feature index is '0' in '0:1'; expected at least 1; set first_index=0"),
    (b"0 -3:1", "feature index is '-3' in '-3:1'; expected a whole number of at least 1"),
    (b"0 +3:1", "feature index is '+3'"),
    (b"0 1.5:1", "feature index is '1.5'"),
    (b"0 :1", "feature index is '' in ':1'"),
    (b"0 10000001:1", "feature index is '10000001' in '10000001:1'; expected at most 10,000,000"),
    (b"0 4294967297:1", "expected at most 10,000,000"),
    (b"0 " + b"9" * 5000 + b":1", "…"),
    (b"0 1:1 1:2", "feature 1 is repeated; expected each feature once"),
    (b"0 3:1 2:2", "feature 2 follows feature 3; sort"),
    (b"0 1:x", "feature 1 is 'x'; expected a finite number"),
    (b"0 1:", "feature 1 is ''; expected"),
    (b"0 1: 2:1", "feature 1 is ''; expected"),
    (b"0 1:.", "feature 1 is '.'"),
    (b"0 1:-", "feature 1 is '-'"),
    (b"0 1:-.", "feature 1 is '-.'"),
    (b"0 1:1.2.3", "feature 1 is '1.2.3'"),
    (b"0 1:1/2", "feature 1 is '1/2'"),
    (b"0 1:1-2", "feature 1 is '1-2'"),
    (b"0 1:1_0", "feature 1 is '1_0'"),
    (b"0 1:nan", "feature 1 is 'nan'"),
    (b"0 1:-inf", "feature 1 is '-inf'"),
    (b"0 1:1e400", "feature 1 is '1e400'; expected a finite number in float32 range"),
    (b"0 1:340282356779733700000000000000000000000", "expected a finite number in float32 range"),
    (b"0 1:NULLS", "feature 1 is 'NULLS'"),
    (b"0 1:2:3", "feature 1 is '2:3'"),
    (b"0 5", "'5' has no colon; expected index:value; start comments with #"),
    (b"0 qid :1", "'qid' has no colon"),
    (b"0 1:1\r2:2\n", r"feature 1 is '1\r2:2'"),
    (b"0 1:1\x0b", r"feature 1 is '1\x0b'"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=repr)
def test_refused_lines_are_named(text, message):
    for start in (b"", b"# comment\n\n", b"0 qid:1 1:1\n" * 3 if b"qid:" in text else b"0 1:1\n" * 3):
        with pytest.raises(DataError) as found:
            parse_rows(start + text, file="dir/f.txt", line=1000)
        assert str(found.value).startswith(f"dir/f.txt, line {1000 + start.count(newline):,}: ")
        assert message in str(found.value)
        assert "\n" not in str(found.value)
        assert len(str(found.value)) < 300


def test_all_lines_have_a_query_or_none():
    for text in (b"0 qid:1 1:1\n0 1:1", b"0 qid:1 1:1\n0", b"0 qid:1 1:1\n" * 500 + b"0 1:1"):
        with pytest.raises(DataError, match=f"line {text.count(newline) + 1}: has no qid:, unlike previous lines; "):
            parse_rows(text, file="f", piece_bytes=100)
    for text in (b"0 1:1\n0 qid:1 1:1", b"0\n0 qid:1", b"0 1:1\n" * 500 + b"0 qid:1 1:1"):
        with pytest.raises(DataError, match=f"line {text.count(newline) + 1}: has 'qid:1', unlike previous lines; "):
            parse_rows(text, file="f", piece_bytes=100)


def test_first_index_and_limit_can_be_set():
    assert parse_rows(b"1 0:5", file="f", first_index=0).index.tolist() == [0]
    assert parse_rows(b"1 1000000000:5", file="f", max_index=2**40).index.tolist() == [10**9]
    for text, limit in ((b"1 2147483648:5", 2**40), (b"1 6:5", 5)):
        with pytest.raises(DataError, match="expected at most"):
            parse_rows(text, file="f", max_index=limit)


def test_pieces_agree_about_queries_and_keep_count_of_lines():
    lines = [b"%d qid:%d 1:%d 2:0.25\n" % (row % 3, row // 10, row) for row in range(1000)]
    whole = careful(b"".join(lines))
    assert_equal(parse_rows(b"".join(lines), file="f", piece_bytes=100), whole)
    lines[700] = b"0 qid:seven 1:700 2:0.25\n"
    mixed = parse_rows(b"".join(lines), file="f", piece_bytes=100)
    assert mixed.query is not None
    assert mixed.query[[0, 699, 700, 999]].tolist() == ["0", "69", "seven", "99"]
    lines[800] = b"0 1:700\n"
    with pytest.raises(DataError, match=r"line 801: has no qid:"):
        parse_rows(b"".join(lines), file="f", piece_bytes=20)
