"""The vectorised parser of SVMlight lines."""

from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from songrank.core.errors import DataError
from songrank.data.parsers.svmlight import Rows, parse_rows
from songrank.data.parsers.svmlight.lines import number
from songrank.data.parsers.svmlight.vectorised import parse_words
from tests.data.parsers.svmlight.rows import LIMITS, assert_equal, careful

digits = st.text("0123456789", min_size=1, max_size=20)

plain = st.builds("{}{}{}{}".format, st.sampled_from(["", "", "-", "+"]), digits, st.sampled_from(["", "."]), digits)

values = st.one_of(
    st.integers(0, 9).map(str),
    plain.filter(lambda text: number(text.encode()) is not None),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["NULL", "null", "1e-5", ".5", "7."]),
)

blanks = st.sampled_from([" ", " ", " ", "  ", "\t"])

endings = st.sampled_from(["\n", "\n", "\r\n", " \n", " # note: 1:2\n", "#\n", "\n\n"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Lines that are all right, in every style."""
    style = draw(st.sampled_from(["none", "number", "any"]))
    ids = st.integers(0, 10**10).map(str) if style == "number" else st.text("abé09-", min_size=1, max_size=5)
    out = []
    for _ in range(draw(st.integers(0, 6))):
        tokens = [draw(values.filter(lambda text: text[0] not in "-nN"))]
        tokens += [] if style == "none" else ["qid:" + draw(ids)]
        features = draw(st.sets(st.one_of(st.integers(1, 20), st.integers(1, 10_000_000)), max_size=6))
        tokens += [f"{index}:{draw(values)}" for index in sorted(features)]
        out.append("".join(token + draw(blanks) for token in tokens).rstrip() + draw(endings))
    return "".join(out).encode()


@settings(max_examples=200, deadline=None)
@given(texts(), st.integers(1, 200))
def test_both_parsers_give_the_same_rows(text, piece_bytes):
    expected = careful(text)
    assert_equal(parse_rows(text, file="f", piece_bytes=piece_bytes), expected)
    at_once = parse_words(text, **LIMITS)
    assert at_once is not None
    assert_equal(at_once, expected)


parts = st.sampled_from(b" |:|1|2|0.5|qid|-|.|\n|\r|#|NULL|e|\t|\xff".split(b"|"))

damaged = st.builds(
    lambda text, at, new: text[:at] + new + text[at + 1 :], texts(), st.integers(0, 200), st.binary(max_size=2)
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.lists(parts, max_size=30).map(b"".join), damaged), st.integers(1, 200))
@example(b"0 1:1 # \r 2:x\r", 200)
@example(b"\r#", 200)
@example(b" 1:0", 200)
def test_any_bytes_parse_alike_or_are_refused_alike(data, piece_bytes):
    expected = outcome(lambda: careful(data))
    found = outcome(lambda: parse_rows(data, file="f", piece_bytes=piece_bytes))
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert_equal(found, expected)


def outcome(parse: Callable[[], Rows]) -> Rows | str:
    try:
        return parse()
    except DataError as error:
        return str(error)
